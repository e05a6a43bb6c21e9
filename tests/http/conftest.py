"""A server for each test, or one for all tests of a module that leave nothing that another would mind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("shared"))
    yield server
    server.end()
