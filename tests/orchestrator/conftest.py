"""A crew for each test, gone after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.crews import Crew

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path, ROTA_RESTART_BACKOFF="50ms")
    yield crew
    crew.end()
