"""Every test here gets a store of each kind on a clock that it moves itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.clock import FakeClock
from tests.support.stores import STORES, make_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    with make_store(request.param, tmp_path, clock) as opened:
        yield opened
