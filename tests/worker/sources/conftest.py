from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.postgres import Server, login_role, server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of this process."""
    with server() as found:
        yield found


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    """The URL of an empty database."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def role(url: str) -> Iterator[str]:
    """A role without any rights."""
    with login_role(url) as name:
        yield name
