"""Migrations: each whole or not at all, once however many start together, and newer schemas refused with what to do."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import apsw
import pytest

from rota.core.claim import Done
from rota.core.errors import SchemaMismatch
from rota.core.times import HOUR
from rota.settings import Settings
from rota.store.migrate import FIRST, LATEST, migrate, migrations
from rota.store.open import open_store
from rota.store.sqlite.create import create
from rota.store.sqlite.database import APPLICATION_ID, SqliteDatabase
from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.made import make
from tests.support.processes import line, output, python, say
from tests.support.releases import next_release, upgrade
from tests.support.schemas import Inside, filled
from tests.support.stores import STORES, rows, url_of
from tests.support.work import add, claim, register

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

OPEN_STORE = "input(); open_store(sys.argv[1], Settings(), make=True).close()"
MIGRATE = """
from rota.store.migrate import migrate
from rota.store.open import open_database
database = open_database(sys.argv[1], Settings())
print("open", flush=True)
input()
print(migrate(database))
"""
# How a program ends itself without a word at its nth statement: before SQLite gets it, or when it has just reached
# PostgreSQL, with all before it, and no answer can be heard any more.
KILLED = {
    "sqlite": """
import apsw
def count(cursor, text, params):
    if is_last(): die()
    return True
apsw.connection_hooks.append(lambda connection: setattr(connection, "exec_trace", count))
""",
    "postgres": """
from rota.store.postgres.pipeline import Pipeline
os.environ["PGAPPNAME"] = "killed"
write = Pipeline._write
def count(pipeline, asked, sent):
    write(pipeline, asked, sent)
    if is_last():
        pipeline._wire.pipeline_sync()
        while pipeline._wire.flush(): pass
        die()
Pipeline._write = count
""",
}
# For each number that it reads a child that is killed at that statement, and how that ended. None counts: not yet.
TURNS = """
import os, signal
from rota.store.migrate import migrate
from rota.store.open import open_database
left = None
def is_last():
    global left
    if left is not None:
        left -= 1
    return left == -1
def die():
    os.kill(os.getpid(), signal.SIGKILL)
{killed}
for turn in sys.stdin:
    child = os.fork()
    if child == 0:
        {work}
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
CREATE = "left = int(turn); open_store(sys.argv[1], Settings(), make=True).close()"
APPLY = "database = open_database(sys.argv[1], Settings()); left = int(turn); migrate(database)"
STILL_THERE = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'killed'"


def bare(path: Path) -> str:
    """A database of ours without a schema yet."""
    connection = apsw.Connection(str(path))
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("journal_mode", "wal")
    connection.close()
    return str(path)


def tables(path: str) -> set[str]:
    connection = apsw.Connection(path)
    found = {
        str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    }
    connection.close()
    return found


def is_whole(path: str) -> bool:
    """Opens, is sound, has every table, and takes a job."""
    with open_store(path, Settings()) as store:
        assert store.database.integrity() == "ok" and store.database.version == LATEST
        assert {"job", "run", "worker", "queue", "event", "orchestrator", "pulse", "migration"} <= tables(path)
        assert rows(store, "SELECT number FROM migration") == [(number,) for number in range(FIRST, LATEST + 1)]
        return add(store) > 0


def test_from_nothing_to_the_newest(tmp_path: Path) -> None:
    path = bare(tmp_path / "rota.db")
    database = SqliteDatabase(path, FakeClock())
    assert migrate(database) == list(range(FIRST, LATEST + 1))
    assert migrate(database) == []
    database.close()
    assert is_whole(path)


# What a schema is made of, besides its columns and indexes.
PARTS = {
    "sqlite": ["SELECT type, name, sql FROM sqlite_schema", "SELECT number, name, oldest FROM migration"],
    "postgres": [
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = current_schema::regnamespace",
        "SELECT relname, relkind, reloptions FROM pg_class WHERE relnamespace = current_schema::regnamespace",
        "SELECT sequencename, start_value, increment_by, cache_size, last_value FROM pg_sequences"
        " WHERE schemaname = current_schema",
        "SELECT table_name, column_name, data_type, column_default, is_nullable FROM information_schema.columns"
        " WHERE table_schema = current_schema",
        "SELECT number, name, oldest FROM migration",
    ],
}


@pytest.mark.parametrize("kind", STORES)
def test_what_tests_are_given_is_what_migrations_make(kind: str, tmp_path: Path) -> None:
    found = []
    for name, making in (("given", make), ("migrated", lambda url: open_store(url, Settings(), make=True).close())):
        (folder := tmp_path / name).mkdir()
        making(url_of(kind, folder))
        with open_store(url_of(kind, folder), Settings()) as store, Inside(store) as inside:
            shape = [inside.columns(), inside.indexes(), inside.contents(inside.columns())]
            found.append([*shape, *(sorted(inside.rows(text), key=repr) for text in PARTS[kind])])
    given, migrated = found
    assert given == migrated


def test_migrations_are_numbered_without_a_gap_up_to_the_newest() -> None:
    assert list(migrations()) == list(range(FIRST, LATEST + 1))
    assert all(FIRST <= oldest <= number for number, (_, oldest, _) in migrations().items())


def test_eight_programs_that_make_a_database_at_once_all_get_the_same_one(tmp_path: Path) -> None:
    path = str(tmp_path / "rota.db")
    with ExitStack() as stack:
        programs = [stack.enter_context(python(OPEN_STORE, path)) for _ in range(8)]
        for program in programs:
            say(program)
        for program in programs:
            output(program)
    assert is_whole(path)
    assert [name for name in os.listdir(tmp_path) if ".new-" in name] == [], "nothing is left lying about"


@pytest.mark.parametrize("kind", STORES)
def test_eight_programs_that_migrate_at_once_apply_each_migration_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 24: of a database that is in use, whose rows stay, when eight programs of the next release open it."""
    url = url_of(kind, tmp_path)
    monkeypatch.setenv("PYTHONPATH", next_release(tmp_path / "next"))
    with filled(url) as store, Inside(store) as inside, ExitStack() as stack:
        known = inside.columns()
        before = inside.contents(known)
        programs = [stack.enter_context(python(MIGRATE, url)) for _ in range(8)]
        assert [line(program) for program in programs] == ["open"] * 8, "each has seen that the schema is old"
        for program in programs:
            say(program)
        applied = [number for program in programs for number in json.loads(output(program))]
        assert applied == [LATEST + 1]
        assert inside.rows("SELECT number FROM migration ORDER BY 1") == [(n,) for n in range(FIRST, LATEST + 2)]
        assert inside.contents(known) == before
        assert store.database.integrity() == "ok" and add(store) > len(before["job"])


def test_killed_before_any_statement_of_its_making_there_is_a_whole_database_or_none(tmp_path: Path) -> None:
    path = str(tmp_path / "rota.db")
    with python(TURNS.format(killed=KILLED["sqlite"], work=CREATE), path) as turns:
        for statement in range(1000):
            if not is_killed(turns, statement):
                break
            assert not os.path.exists(path) or is_whole(path)
    assert statement > 40, "every statement had its turn"
    assert is_whole(path)


@pytest.mark.parametrize("kind", STORES)
def test_killed_at_any_statement_of_a_migration_it_is_whole_or_undone_and_every_row_is_there(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 23: each statement of the next release's migration has its turn, in a database that is in use."""
    wanted = {number: shape(number, kind, tmp_path / str(number)) for number in (LATEST, LATEST + 1)}
    monkeypatch.setenv("PYTHONPATH", next_release(tmp_path / "next"))
    killed = statement = 0
    with (
        filled(url_of(kind, tmp_path)) as store,
        Inside(store) as inside,
        python(TURNS.format(killed=KILLED[kind], work=APPLY), store.database.url) as turns,
    ):
        known, version = inside.columns(), LATEST
        before = inside.contents(known)
        while is_killed(turns, statement):
            killed, statement = killed + 1, statement + 1
            eventually(lambda: kind == "sqlite" or inside.rows(STILL_THERE) == [])
            ((found,),) = inside.rows("SELECT max(number) FROM migration")
            assert (inside.columns(), inside.indexes()) == wanted[found], f"{found} is whole"
            assert inside.contents(known) == before
            if found > version:  # what is left to do is counted from its first statement again
                version, statement = found, 0
        assert (inside.columns(), inside.indexes()) == wanted[LATEST + 1] and inside.contents(known) == before
    assert killed > 40, "every statement had its turn"


def shape(number: int, kind: str, folder: Path) -> tuple[dict[str, list[str]], list[str]]:
    """The tables and indexes of this schema, as it is made where nobody is killed."""
    folder.mkdir()
    with filled(url_of(kind, folder)) as store, Inside(store) as inside:
        if number > LATEST:
            upgrade(store.database)
        return inside.columns(), inside.indexes()


def is_killed(turns: Popen[str], statement: int) -> bool:
    """Whether the next one died at that statement, rather than coming to its end before."""
    say(turns, str(statement))
    code = int(line(turns))
    assert code in (0, -signal.SIGKILL)
    return code != 0


def make_newer(path: str, oldest: int) -> None:
    create(path, os.path.dirname(path), None)
    connection = apsw.Connection(path)
    connection.execute(
        "INSERT INTO migration (number, name, oldest, applied_at) VALUES (:number, 'next', :oldest, 0)",
        {"number": LATEST + 1, "oldest": oldest},
    )
    connection.pragma("user_version", LATEST + 1)
    connection.close()


def test_a_schema_too_new_for_this_code_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = str(tmp_path / "rota.db")
    make_newer(path, LATEST + 1)
    with pytest.raises(SchemaMismatch, match=f"this database has schema {LATEST + 1}, made by a newer rota.*upgrade"):
        open_store(path, Settings())


def test_beside_a_newer_schema_that_allows_it_old_code_finishes_and_begins_nothing(tmp_path: Path) -> None:
    path, clock = str(tmp_path / "rota.db"), FakeClock()
    create(path, str(tmp_path), None)
    with open_store(path, Settings(), clock=clock) as store:
        jobs, worker = [add(store) for _ in range(3)], register(store)
        held = [claim(store, job, worker) for job in jobs[:2]]
        rows(store, f"INSERT INTO migration VALUES ({LATEST + 1}, 'next', {LATEST}, 0)")
        rows(store, f"PRAGMA user_version = {LATEST + 1}")
    with open_store(path, Settings(), clock=clock) as outdated:
        assert outdated.claims.renew(held[0], HOUR).renewed_count == 1
        outdated.claims.settle(held[0], Done())
        outdated.claims.release(held[1])
        assert outdated.workers.heartbeat(worker) == "continue"
        for begin in (
            lambda: add(outdated),
            lambda: claim(outdated, jobs[2]),
            outdated.claims.take,
            lambda: register(outdated),
            outdated.orchestrators.join,
        ):
            with pytest.raises(SchemaMismatch, match="upgrade"):
                begin()
        assert [outdated.jobs.get(job).status for job in jobs] == ["done", "ready", "ready"]


def test_every_state_of_the_tables_is_a_check_of_the_schema(tmp_path: Path) -> None:
    path = str(tmp_path / "rota.db")
    create(path, str(tmp_path), None)
    with open_store(path, Settings()) as store:
        add(store)
        for change in ("status = 'lost'", "status = 'active'", "status = 'blocked'", "blocked_on = 'limit'"):
            with pytest.raises(apsw.ConstraintError, match=re.escape("CHECK constraint failed")):
                rows(store, f"UPDATE job SET {change}")
