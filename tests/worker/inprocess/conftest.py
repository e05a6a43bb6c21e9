from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.stores import STORES, url_of
from tests.worker.inprocess.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=STORES)
def workshop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path, request.param)
    yield made
    made.close()


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is, or will be."""
    return url_of(request.param, tmp_path)
