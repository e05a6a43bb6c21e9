"""`install` and `uninstall`: the tables and functions in schema `ai`, each call in one transaction.

Every object made here carries a comment that says so, and no other object is ever dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rota.core.errors import NotFound, StoreError
from rota.core.record import Record
from rota.store.postgres.connection import psycopg
from rota.tracking.connections import composed, statement, texts

if TYPE_CHECKING:
    from rota.tracking.connections import Connection

MARK = "made by rota tracking install"
TABLES = {
    "vectorizer": ("id", "source_table"),
    "vectorizer_worker_process": (
        "id",
        "version",
        "started",
        "expected_heartbeat_interval",
        "last_heartbeat",
        "heartbeat_count",
        "success_count",
        "error_count",
        "last_error_at",
        "last_error_message",
    ),
    "vectorizer_worker_progress": (
        "vectorizer_id",
        "success_count",
        "error_count",
        "last_success_at",
        "last_success_process_id",
        "last_error_at",
        "last_error_message",
        "last_error_process_id",
        "updated_at",
    ),
}
INDEX = "vectorizer_worker_process_last_heartbeat_idx"
FUNCTIONS = {
    "_worker_start": "version text, expected_heartbeat_interval interval",
    "_worker_heartbeat": "worker_id uuid, num_successes_since_last_heartbeat bigint,"
    " num_errors_since_last_heartbeat bigint, error_message text",
    "_worker_progress": "worker_id uuid, worker_vectorizer_id integer, num_successes bigint, error_message text",
}


class Installed(Record):
    """The objects that an installation created, those that it kept, and the older overloads that it dropped."""

    made: tuple[str, ...]
    kept: tuple[str, ...]
    dropped: tuple[str, ...]


class Uninstalled(Record):
    """The objects that were dropped, and those that were kept because rota had not made them."""

    dropped: tuple[str, ...]
    kept: tuple[str, ...]


def install(connection: Connection, role: str | None = None) -> Installed:
    """Create the tables that are absent, and replace the functions.

    Args:
        connection: A connection whose role may create objects in schema `ai`.
        role: A role that gets the rights of a worker.

    Raises:
        NotFound: There is no such role.
        StoreError: A table of one of these names has other columns.
    """
    with connection.transaction():
        connection.execute(statement("schema.one_at_a_time"))
        if role is not None:
            _check_role(connection, role)
        made, kept = _make_tables(connection)
        dropped = _make_functions(connection, made, kept)
        if role is not None:
            registers = ("grant_register",) if _relations(connection)["vectorizer"] == MARK else ()
            for grant in ("grant_schema", "grant_read", *registers, "grant_write", "grant_call"):
                connection.execute(composed(f"schema.{grant}", role=psycopg.sql.Identifier(role)))
    return Installed(tuple(made), tuple(kept), tuple(dropped))


def uninstall(connection: Connection) -> Uninstalled:
    """Drop what `install` made and nothing else.

    Raises:
        NotFound: There is no schema `ai` in this database.
    """
    dropped: list[str] = []
    kept: list[str] = []
    with connection.transaction():
        connection.execute(statement("schema.one_at_a_time"))
        if connection.execute(statement("schema.schema")).fetchone() is None:
            raise NotFound("there is no tracking in this database")
        for name, arguments, comment in _functions(connection):
            (dropped if comment == MARK else kept).append(f"ai.{name}")
            if comment == MARK:
                _drop_function(connection, name, arguments)
        tables = _relations(connection)
        # In reverse, because the progress table refers to the vectorizers.
        for name in reversed([*TABLES, INDEX]):
            if name in tables:
                (dropped if tables[name] == MARK else kept).append(f"ai.{name}")
            if tables.get(name) == MARK:
                verb, part = ("drop_index", "index") if name == INDEX else ("drop_table", "table")
                connection.execute(composed(f"schema.{verb}", **{part: psycopg.sql.Identifier("ai", name)}))
        if _is_ours(connection) and _one(connection, "schema.empty"):
            connection.execute(statement("schema.drop_schema"))
            dropped.append("ai")
    return Uninstalled(tuple(dropped), tuple(kept))


def _check_role(connection: Connection, role: str) -> None:
    if connection.execute(statement("schema.role"), {"role": role}).fetchone() is None:
        raise NotFound(f"there is no role {role!r}: CREATE ROLE makes one")


def _make_tables(connection: Connection) -> tuple[list[str], list[str]]:
    made: list[str] = []
    kept: list[str] = []
    if connection.execute(statement("schema.schema")).fetchone() is None:
        connection.execute(statement("tables.schema"))
        _mark(connection, "SCHEMA", psycopg.sql.Identifier("ai"))
        made.append("ai")
    existing = _relations(connection)
    for name, columns in TABLES.items():
        if name in existing:
            _check_columns(connection, name, columns)
            kept.append(f"ai.{name}")
        else:
            connection.execute(statement(f"tables.{name}"))
            _mark(connection, "TABLE", psycopg.sql.Identifier("ai", name))
            made.append(f"ai.{name}")
    if not _one(connection, "schema.indexed"):
        connection.execute(statement(f"tables.{INDEX}"))
        _mark(connection, "INDEX", psycopg.sql.Identifier("ai", INDEX))
        made.append(f"ai.{INDEX}")
    return made, kept


def _check_columns(connection: Connection, table: str, columns: tuple[str, ...]) -> None:
    rows = connection.execute(statement("schema.columns"), {"table": table}).fetchall()
    missing = set(columns) - {cast("str", name) for (name,) in rows}
    if missing:
        raise StoreError(
            f"ai.{table} exists without {', '.join(sorted(missing))}: it is another table, and stays as it is"
        )


def _make_functions(connection: Connection, made: list[str], kept: list[str]) -> list[str]:
    """Replace each function, after dropping every other overload: no call may be ambiguous or miss the new one."""
    dropped: list[str] = []
    existing = _functions(connection)
    for name, arguments, _ in existing:
        if FUNCTIONS[name] != arguments:
            _drop_function(connection, name, arguments)
            dropped.append(f"ai.{name}({arguments})")
    for name, arguments in FUNCTIONS.items():
        connection.execute(texts("functions")[name].encode())
        if any(name == other for other, _, _ in existing):
            kept.append(f"ai.{name}")
            continue
        signature = psycopg.sql.SQL("{}({})").format(psycopg.sql.Identifier("ai", name), _raw(arguments))
        _mark(connection, "FUNCTION", signature)
        made.append(f"ai.{name}")
    return dropped


def _functions(connection: Connection) -> list[tuple[str, str, str | None]]:
    rows = connection.execute(statement("schema.functions"), {"names": list(FUNCTIONS)}).fetchall()
    return sorted(cast("list[tuple[str, str, str | None]]", rows), key=lambda row: row[:2])


def _relations(connection: Connection) -> dict[str, str | None]:
    rows = connection.execute(statement("schema.tables"), {"names": [*TABLES, INDEX]}).fetchall()
    return dict(cast("list[tuple[str, str | None]]", rows))


def _drop_function(connection: Connection, name: str, arguments: str) -> None:
    function = psycopg.sql.Identifier("ai", name)
    connection.execute(composed("schema.drop_function", function=function, arguments=_raw(arguments)))


def _mark(connection: Connection, kind: str, name: psycopg.sql.Composable) -> None:
    text = psycopg.sql.Literal(MARK)
    connection.execute(composed("schema.mark", kind=psycopg.sql.SQL(kind), name=name, text=text))


def _raw(arguments: str) -> psycopg.sql.SQL:
    """Return arguments as SQL; the catalogue has quoted them where they need it."""
    return psycopg.sql.SQL(arguments)


def _is_ours(connection: Connection) -> bool:
    return connection.execute(statement("schema.schema")).fetchone() == (MARK,)


def _one(connection: Connection, name: str) -> bool:
    row = connection.execute(statement(name)).fetchone()
    return bool(row and row[0])
