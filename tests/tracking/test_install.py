"""Making and dropping the schema."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from rota.core.errors import Conflict, NotFound, StoreError
from rota.tracking.connections import opened
from rota.tracking.schema import FUNCTIONS, TABLES, Installed, install, uninstall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.tracking.connections import Connection

# What an older installation looks like: counts of four bytes, and a table with a column of its own.
OLDER = """
CREATE SCHEMA ai;
CREATE TABLE ai.vectorizer (id int PRIMARY KEY, source_table name, config jsonb);
INSERT INTO ai.vectorizer VALUES (7, 'blog', '{}');
CREATE FUNCTION ai._worker_heartbeat(worker_id uuid, num_successes_since_last_heartbeat int,
    num_errors_since_last_heartbeat int, error_message text) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION ai._worker_progress(worker_id uuid, worker_vectorizer_id int, num_successes int, error_message text)
    RETURNS void LANGUAGE sql AS 'SELECT';
"""
OBJECTS = """
SELECT relname::text, (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0)
FROM pg_class c WHERE relnamespace = to_regnamespace('ai')
UNION ALL
SELECT oid::regprocedure::text, 0 FROM pg_proc WHERE pronamespace = to_regnamespace('ai')
ORDER BY 1
"""


@pytest.fixture
def owner(empty: str) -> Iterator[Connection]:
    with opened(empty) as connection:
        yield connection


def objects(connection: Connection) -> list[Any]:
    return connection.execute(OBJECTS).fetchall()


def overloads(connection: Connection) -> list[Any]:
    rows = connection.execute("SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'ai'::regnamespace")
    return sorted(name for (name,) in rows.fetchall())


EXPECTED = [
    "ai._worker_heartbeat(uuid,bigint,bigint,text)",
    "ai._worker_progress(uuid,integer,bigint,text)",
    "ai._worker_start(text,interval)",
]


def test_a_second_installation_changes_nothing(owner: Connection) -> None:
    first = install(owner)
    before = objects(owner)
    second = install(owner)

    assert len(first.made) == 1 + len(TABLES) + 1 + len(FUNCTIONS)
    assert (second.made, second.dropped) == ((), ())
    assert objects(owner) == before


# As the document of worker tracking has them, in its order; what may be empty there is followed by a question mark.
DOCUMENTED = {
    "vectorizer_worker_process": """
        id uuid
        version text
        started timestamptz
        expected_heartbeat_interval interval
        last_heartbeat timestamptz
        heartbeat_count int8
        success_count int8
        error_count int8
        last_error_at timestamptz?
        last_error_message text?
    """,
    "vectorizer_worker_progress": """
        vectorizer_id int4
        success_count int8
        error_count int8
        last_success_at timestamptz?
        last_success_process_id uuid?
        last_error_at timestamptz?
        last_error_message text?
        last_error_process_id uuid?
        updated_at timestamptz
    """,
}
COLUMNS = """
SELECT column_name || ' ' || udt_name || CASE is_nullable WHEN 'YES' THEN '?' ELSE '' END
FROM information_schema.columns WHERE table_schema = 'ai' AND table_name = %s ORDER BY ordinal_position
"""


@pytest.mark.parametrize("table", DOCUMENTED)
def test_a_table_has_exactly_the_documented_columns(owner: Connection, table: str) -> None:
    install(owner)
    rows = owner.execute(COLUMNS, (table,)).fetchall()
    assert [text for (text,) in rows] == [line.strip() for line in DOCUMENTED[table].strip().splitlines()]


def test_older_functions_with_int_are_replaced_by_exactly_one_overload_each(owner: Connection) -> None:
    owner.execute(OLDER)
    done = install(owner)

    assert len(done.dropped) == 2
    assert overloads(owner) == EXPECTED
    owner.execute("SELECT ai._worker_progress(gen_random_uuid(), 7, 5, NULL)")
    assert owner.execute("SELECT success_count FROM ai.vectorizer_worker_progress").fetchall() == [(5,)]


def test_a_table_that_exists_is_never_altered(owner: Connection) -> None:
    owner.execute(OLDER)
    install(owner)

    assert owner.execute("SELECT * FROM ai.vectorizer").fetchall() == [(7, "blog", {})]
    assert ("vectorizer", 3) in objects(owner)


def test_a_table_of_another_shape_is_refused_and_nothing_is_made(owner: Connection) -> None:
    owner.execute("CREATE SCHEMA ai; CREATE TABLE ai.vectorizer_worker_process (id uuid PRIMARY KEY, beats int)")
    before = objects(owner)

    with pytest.raises(StoreError, match=r"ai\.vectorizer_worker_process exists without error_count"):
        install(owner)
    assert objects(owner) == before


def test_an_index_on_the_last_heartbeat_is_made_once_whatever_it_is_called(owner: Connection) -> None:
    install(owner)
    owner.execute("ALTER INDEX ai.vectorizer_worker_process_last_heartbeat_idx RENAME TO mine")
    assert install(owner).made == ()

    owner.execute("DROP INDEX ai.mine")
    assert install(owner).made == ("ai.vectorizer_worker_process_last_heartbeat_idx",)


def test_eight_installations_at_once_make_one(empty: str) -> None:
    done: list[Installed] = []

    def run() -> None:
        with opened(empty) as connection:
            done.append(install(connection))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(len(each.made) for each in done) == [0] * 7 + [8]


def test_uninstalling_leaves_nothing_of_ours(owner: Connection) -> None:
    install(owner)
    done = uninstall(owner)

    assert done.kept == ()
    assert owner.execute("SELECT to_regnamespace('ai')").fetchone() == (None,)
    with pytest.raises(NotFound):
        uninstall(owner)


def test_uninstalling_keeps_what_was_there_before(owner: Connection) -> None:
    owner.execute(OLDER)
    install(owner)
    done = uninstall(owner)

    assert set(done.kept) == {"ai.vectorizer", "ai._worker_heartbeat", "ai._worker_progress"}
    assert owner.execute("SELECT * FROM ai.vectorizer").fetchall() == [(7, "blog", {})]
    assert overloads(owner) == EXPECTED[:2]


def test_uninstalling_is_refused_when_something_of_the_users_hangs_on_it(owner: Connection, empty: str) -> None:
    install(owner)
    owner.execute("CREATE TABLE mine (v int REFERENCES ai.vectorizer)")
    before = objects(owner)

    with pytest.raises(Conflict, match="mine"), opened(empty) as connection:
        uninstall(connection)
    assert objects(owner) == before


def test_an_installation_that_fails_half_way_leaves_nothing(owner: Connection) -> None:
    owner.execute(
        "CREATE SCHEMA ai; CREATE FUNCTION ai._worker_start(version text, expected_heartbeat_interval interval)"
        " RETURNS text LANGUAGE sql AS 'SELECT NULL::text'"
    )
    before = objects(owner)

    with pytest.raises(psycopg.errors.InvalidFunctionDefinition):
        install(owner)
    assert objects(owner) == before
