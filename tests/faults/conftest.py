"""A crew for each test, on each store, gone after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.crews import Crew
from tests.support.stores import STORES, exports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=STORES)
def crew(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    where = exports(request.param, tmp_path)
    crew = Crew(tmp_path, ROTA_RESTART_BACKOFF="50ms", **where)
    yield crew
    crew.end()
