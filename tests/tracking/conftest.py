from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.tracking.connections import opened
from rota.tracking.schema import install
from tests.support.postgres import Server, login_role, shared
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.tracking.connections import Connection


@pytest.fixture
def postgres() -> Server:
    return shared()


@pytest.fixture
def empty(postgres: Server) -> Iterator[str]:
    """The URL of a database without tracking."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def url(empty: str) -> str:
    """The URL of a database with tracking and one vectorizer, number 1."""
    with opened(empty) as connection:
        install(connection)
        connection.execute("INSERT INTO ai.vectorizer (source_table) VALUES ('blog')")
    return empty


@pytest.fixture
def sql(url: str) -> Iterator[Connection]:
    """A connection of the owner's, on which each statement is a transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def role(empty: str) -> Iterator[str]:
    """A role without any rights; its name needs quotes."""
    with login_role(empty) as name:
        yield name


@pytest.fixture
def shell(tmp_path: Path, empty: str) -> Shell:
    """A shell that exports the database's URL."""
    return Shell(tmp_path, ROTA_DB=empty)
