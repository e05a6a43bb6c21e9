"""Statements that are sent together, against a real server."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from rota.store.postgres import connection as connections
from rota.store.postgres import pipeline
from rota.store.postgres.connection import psycopg
from rota.store.postgres.dialect import Statement, as_statement
from rota.store.postgres.pipeline import Pipeline
from tests.support.stores import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.postgres.connection import Connection

pytestmark = pytest.mark.postgres

GIVE_BACK = as_statement("SELECT CAST(:value AS text)")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with closing(connections.connect(connections.address(url_of("postgres", tmp_path)).conninfo)) as opened:
        yield opened


@pytest.fixture
def line(connection: Connection) -> Pipeline:
    return Pipeline(connection, keeps=True)


def heard(line: Pipeline, *statements: Statement, value: object = "") -> list[object]:
    """What each of these answered, sent together."""
    line.begin()
    try:
        asked = [line.ask(each, {"value": value}) for each in statements]
        line.receive()
        return [line.rows(each)[0][0] for each in asked]
    finally:
        line.end()


def prepared(connection: Connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()]


@pytest.mark.parametrize("value", ["", "a", 'q"uo\\te', "snow ☃", "12", 7, -(1 << 63), (1 << 63) - 1, None, 1.5])
def test_a_value_comes_back_as_it_was_given(line: Pipeline, value: object) -> None:
    assert heard(line, GIVE_BACK, value=value) == [None if value is None else str(value)]


def test_a_truth_is_one(line: Pipeline) -> None:
    assert heard(line, as_statement("SELECT :value"), value=True) == [True]


def test_a_nul_is_replaced_so_that_what_a_handler_says_can_be_kept(line: Pipeline) -> None:
    assert heard(line, GIVE_BACK, value="a\0b") == ["a\N{REPLACEMENT CHARACTER}b"]


def test_what_is_no_number_and_no_text_is_refused_before_anything_is_sent(line: Pipeline) -> None:
    with pytest.raises(TypeError, match="numbers and texts"):
        heard(line, GIVE_BACK, value=[1])
    assert heard(line, GIVE_BACK, value="b") == ["b"]


def test_a_statement_is_prepared_once_for_each_of_its_types(line: Pipeline, connection: Connection) -> None:
    for value in ("a", "b", 1, 2, None):
        heard(line, GIVE_BACK, GIVE_BACK, value=value)
    assert prepared(connection) == ["SELECT CAST($1 AS text)"] * 2


def test_a_problem_is_raised_and_what_came_behind_it_can_be_asked_again(line: Pipeline, connection: Connection) -> None:
    """What stood behind it in the message was not prepared either."""
    with pytest.raises(psycopg.errors.DivisionByZero):
        heard(line, as_statement("SELECT 1 / 0"), GIVE_BACK)
    with pytest.raises(psycopg.errors.UndefinedTable):
        heard(line, as_statement("SELECT 1 FROM nowhere"), GIVE_BACK)
    assert heard(line, GIVE_BACK, value="again") == ["again"]
    assert prepared(connection).count("SELECT CAST($1 AS text)") == 1


def test_what_was_not_heard_is_never_sent(line: Pipeline, connection: Connection) -> None:
    line.begin()
    line.ask(as_statement("CREATE TABLE public.never (n int)"), {})
    line.end()
    assert connection.execute("SELECT to_regclass('public.never')").fetchall() == [(None,)]


def test_the_server_keeps_only_so_many(line: Pipeline, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_STATEMENTS", 10)
    for number in range(35):
        assert heard(line, as_statement(f"SELECT {number}")) == [number]
    assert len(prepared(connection)) == 10
    assert heard(line, as_statement("SELECT 0")) == [0]


def test_long_messages_go_in_both_directions_at_once(line: Pipeline) -> None:
    """More than both ends have room for: who only wrote would wait for ever."""
    text = "x" * 1_000_000
    assert heard(line, *[GIVE_BACK] * 30, value=text) == [text] * 30


def test_a_sync_stands_behind_whatever_libpq_would_send_by_itself(line: Pipeline) -> None:
    """A program may be stopped between two of them: then the first holds its locks no longer than the server allows."""
    line.begin()
    for _ in range(3):
        line.ask(GIVE_BACK, {"value": "x" * 7_000})
    assert [each is None for each in line._send()] == [False, False, True, False, True, False, True]


def test_why_a_server_ended_a_connection_is_told(line: Pipeline) -> None:
    line.begin()
    line.ask(as_statement("SELECT pg_terminate_backend(pg_backend_pid())"), {})
    with pytest.raises(psycopg.errors.AdminShutdown):
        line.receive()
    with pytest.raises(psycopg.OperationalError):
        line.receive()
