"""A crew for each test, on either store, gone after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.crews import Crew
from tests.support.stores import STORES, exports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path, ROTA_RESTART_BACKOFF="50ms")
    yield crew
    crew.end()


@pytest.fixture(params=STORES)
def either_crew(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path, ROTA_RESTART_BACKOFF="50ms", **exports(request.param, tmp_path))
    yield crew
    crew.end()
