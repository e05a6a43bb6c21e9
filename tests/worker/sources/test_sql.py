"""A query as a source, over every connection that a user may have."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import apsw
import psycopg
import pytest

from rota import App, BadInput, SqlSource
from rota.worker.sources.filling import as_pair
from rota.worker.sources.query_plan import candidates, explain, statement
from rota.worker.sources.sql_source import kind_of
from tests.support.postgres import with_parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TABLE = "CREATE TABLE file (id integer PRIMARY KEY, path text, tagged integer)"
ROWS = "INSERT INTO file (id, path, tagged) VALUES (1, 'a.wav', NULL), (2, 'b.wav', 1), (3, 'c.wav', NULL)"
QUERY = "SELECT id, path FROM file WHERE tagged IS NULL ORDER BY id"


@pytest.fixture(params=["sqlite3", "apsw", "psycopg"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """A function that opens a connection to a table of three files, one of them tagged."""
    path = str(tmp_path / "files.db")
    if request.param == "psycopg":
        url = request.getfixturevalue("url")
        with psycopg.connect(url) as connection:
            connection.execute(TABLE)
            connection.execute(ROWS)
        return lambda: psycopg.connect(url)
    plain = sqlite3.connect(path)
    plain.execute(TABLE)
    plain.execute(ROWS)
    plain.commit()
    plain.close()
    return (lambda: sqlite3.connect(path)) if request.param == "sqlite3" else (lambda: apsw.Connection(path))


def test_the_first_column_is_the_key_and_the_rest_the_payload(connect: Callable[[], Any]) -> None:
    assert list(SqlSource(QUERY, connect)()) == [(1, {"path": "a.wav"}), (3, {"path": "c.wav"})]


def test_a_single_column_is_key_and_payload_in_one(connect: Callable[[], Any]) -> None:
    assert list(SqlSource("SELECT path FROM file WHERE id = 1;", connect)()) == ["a.wav"]


def test_nothing_found_yields_nothing(connect: Callable[[], Any]) -> None:
    assert list(SqlSource("SELECT id, path FROM file WHERE id > 99", connect)()) == []


def test_the_connection_is_closed_also_when_the_pass_stops_early(connect: Callable[[], Any]) -> None:
    opened: list[Any] = []

    def kept() -> Any:
        opened.append(connect())
        return opened[-1]

    rows = SqlSource(QUERY, kept)()
    assert next(rows) == (1, {"path": "a.wav"})
    rows.close()  # type: ignore[attr-defined]
    with pytest.raises((sqlite3.ProgrammingError, apsw.ConnectionClosedError, psycopg.OperationalError)):
        opened[0].cursor().execute("SELECT 1")


def test_parameters_are_handed_to_the_database(tmp_path: Path) -> None:
    path = str(tmp_path / "files.db")
    sqlite3.connect(path).execute(TABLE)
    source = SqlSource("SELECT ?, ?", lambda: sqlite3.connect(path), params=("k", "it's"))
    assert list(source()) == [("k", {"?": "it's"})]


@pytest.mark.postgres
def test_values_of_postgresql_that_json_cannot_hold_become_text_or_are_refused(url: str) -> None:
    id = "6f1c4a0e-0000-4000-8000-000000000001"
    query = f"SELECT '{id}'::uuid AS id, 1.50::numeric AS price, date '2026-01-02' AS day"
    (item,) = SqlSource(query, lambda: psycopg.connect(url))()
    assert item == (id, {"price": "1.50", "day": "2026-01-02"})
    with pytest.raises(BadInput, match="column data is bytes"):
        list(SqlSource("SELECT 1 AS id, '\\x00'::bytea AS data", lambda: psycopg.connect(url))())


def test_a_query_that_shares_rotas_own_file_through_another_library_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "rota.db")
    sqlite3.connect(path).execute(TABLE)
    source = SqlSource(QUERY, lambda: sqlite3.connect(path))
    source.keep_off(path)
    with pytest.raises(BadInput, match="open it with apsw"):
        list(source())
    source = SqlSource(QUERY, lambda: apsw.Connection(path))
    source.keep_off(path)
    assert list(source()) == []


def test_a_query_or_a_way_to_connect_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="needs a query"):
        SqlSource(" ", lambda: None)
    with pytest.raises(BadInput, match="needs connect="):
        SqlSource("SELECT 1", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "pair"),
    [
        ("a", ("a", '"a"')),
        (7, ("7", "7")),
        (("a", {"n": 1}), ("a", '{"n":1}')),
        (("a", None), ("a", None)),
        ((7, [1]), ("7", "[1]")),
    ],
)
def test_what_a_source_may_yield(item: object, pair: tuple[str, str | None]) -> None:
    assert as_pair("files", item) == pair


@pytest.mark.parametrize(
    "item", ["", None, True, 1.5, b"a", ("a",), ("a", 1, 2), "a\0b", "a" * 1001, ["a", 1], (None, 1)]
)
def test_what_a_source_may_not_yield_is_named(item: object) -> None:
    with pytest.raises(BadInput, match="source files yielded"):
        as_pair("files", item)


def test_a_payload_that_is_not_json_is_named_with_its_key() -> None:
    with pytest.raises(BadInput, match="payload of key 'a'"):
        as_pair("files", ("a", object()))


def test_a_source_is_declared_with_its_task_by_name_or_itself() -> None:
    app = App("sqlite:///unused.db")

    @app.task(queue="tag")
    def tag(path: str) -> None: ...

    @app.source(queue="tag", task=tag, every="5s", low=1, batch=2, repeats=None)
    def files() -> list[str]:
        return ["a", "b"]

    app.source(task="elsewhere", name="query")(SqlSource("SELECT 1", lambda: None))
    assert files() == ["a", "b"]
    told = app.declarations()
    assert told["tasks"] == ["tag"]
    assert told["sources"][0] == {
        "name": "files", "queue": "tag", "task": "tag", "every": 5_000_000, "low": 1, "batch": 2, "repeats": None,
    }  # fmt: skip
    assert [source["task"] for source in told["sources"]] == ["tag", "elsewhere"]


def test_a_source_that_cannot_be_declared_says_why() -> None:
    app = App("sqlite:///unused.db")
    with pytest.raises(BadInput, match="give it one with name="):
        app.source(task="tag")(SqlSource("SELECT 1", lambda: None))
    app.source(task="tag", name="files")(lambda: [])
    with pytest.raises(BadInput, match="there is a source 'files' already"):
        app.source(task="tag", name="files")(lambda: [])
    with pytest.raises(BadInput, match="low must be"):
        app.source(task="tag", name="other", low=0)(lambda: [])
    with pytest.raises(BadInput, match="rota's own"):
        app.task(name="rota:source:files")(lambda: None)


def test_a_plan_that_reads_the_whole_table_is_seen_and_the_index_that_helps_is_proposed(
    connect: Callable[[], Any],
) -> None:
    connection = connect()
    plan = explain(SqlSource(QUERY, connect), connection)
    assert plan is not None and plan.lines and plan.denied is None
    assert plan.scans == ["file"]
    assert plan.index is not None and plan.index.startswith("CREATE INDEX file_tagged") and "(tagged" in plan.index
    connection.cursor().execute(plan.index)
    after = explain(SqlSource(QUERY, connect), connection)
    assert after is not None and (after.scans, after.index) == ([], None)
    connection.close()


def test_a_table_that_is_named_by_an_alias_is_found(connect: Callable[[], Any]) -> None:
    connection = connect()
    plan = explain(SqlSource("SELECT f.id FROM file AS f WHERE f.path = 'a'", connect), connection)
    assert plan is not None and (plan.scans, plan.index) == (["file"], "CREATE INDEX file_path ON file (path)")
    connection.close()


def test_no_index_is_proposed_where_none_helps(connect: Callable[[], Any]) -> None:
    connection = connect()
    plan = explain(SqlSource("SELECT id, path FROM file", connect), connection)
    assert plan is not None and (plan.scans, plan.index) == (["file"], None)
    connection.close()


@pytest.mark.parametrize("condition", ["tagged IS DISTINCT FROM 1", "tagged <> 1", "tagged <> 1 OR path = 'a'"])
def test_no_index_is_proposed_for_a_condition_that_none_serves(connect: Callable[[], Any], condition: str) -> None:
    connection = connect()
    if kind_of(connection) != "psycopg":  # whose every release knows the word
        condition = condition.replace("IS DISTINCT FROM", "IS NOT")
    plan = explain(SqlSource(f"SELECT id FROM file WHERE {condition}", connect), connection)
    assert plan is not None and (plan.scans, plan.index) == (["file"], None)
    connection.close()


def test_the_index_has_the_columns_of_the_conditions_that_it_serves(connect: Callable[[], Any]) -> None:
    connection = connect()
    plan = explain(SqlSource("SELECT id FROM file WHERE tagged <> 1 AND path = 'a'", connect), connection)
    assert plan is not None and plan.index == "CREATE INDEX file_path ON file (path)"
    connection.close()


@pytest.mark.postgres
def test_what_the_role_may_not_read_is_told(url: str, role: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(TABLE)
    with psycopg.connect(with_parts(url, user=role)) as connection:
        plan = explain(SqlSource(QUERY, lambda: connection), connection)
    assert plan is not None and plan.denied is not None and "permission denied for table file" in plan.denied


def test_candidates_come_from_what_is_filtered_and_sorted_not_from_texts() -> None:
    known = ["id", "path", "tagged", "Size"]
    query = "SELECT id FROM t WHERE tagged IS NULL AND note = 'path' AND \"Size\" > 3 ORDER BY id LIMIT 5"
    assert next(candidates(query, known)) == ("tagged", "Size", "id")
    assert list(candidates("SELECT id FROM t ORDER BY id", known)) == []
    assert statement("my table", ["a b", "c"]) == 'CREATE INDEX my_table_a_b_c ON "my table" ("a b", c)'
