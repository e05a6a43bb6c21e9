"""Migrations: each whole or not at all, once however many start together, and newer schemas refused with what to do."""

from __future__ import annotations

import json
import os
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING

import apsw
import pytest

from rota.core.claim import Done
from rota.core.errors import SchemaMismatch
from rota.core.times import HOUR
from rota.settings import Settings
from rota.store.migrate import LATEST, migrate, migrations
from rota.store.open import open_store
from rota.store.sqlite.create import create
from rota.store.sqlite.database import APPLICATION_ID, SqliteDatabase
from tests.support.clock import FakeClock
from tests.support.processes import line, output, python, say
from tests.support.stores import rows
from tests.support.work import add, claim, register

if TYPE_CHECKING:
    from pathlib import Path

OPEN_STORE = "input(); open_store(sys.argv[1], Settings(), make=True).close()"
# A database without a schema has no clock of its own yet.
NO_CLOCK = """
class NoClock:
    def now(self): return 0
    def wall(self): return 0
"""
MIGRATE = (
    NO_CLOCK
    + """
from rota.store.migrate import migrate
from rota.store.sqlite.database import SqliteDatabase
database = SqliteDatabase(sys.argv[1], NoClock())
print("open", flush=True)
input()
print(migrate(database))
"""
)
# Ends itself without a word before the nth statement that SQLite is given.
KILLED = """
import apsw, os, signal
left = int(sys.argv[2])
def count(cursor, text, params):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return True
apsw.connection_hooks.append(lambda connection: setattr(connection, "exec_trace", count))
"""
CREATE = KILLED + "open_store(sys.argv[1], Settings(), make=True).close(); print('whole')"
MADE_BY = {"job": 1, "event": 1, "slot": 2, "source": 4, "source_memory": 4, "token": 6, "meter_mark": 6}
APPLY = (
    KILLED
    + NO_CLOCK
    + """
from rota.store.migrate import migrate
from rota.store.sqlite.database import SqliteDatabase
migrate(SqliteDatabase(sys.argv[1], NoClock()))
print('whole')
"""
)


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


def version_of(path: str) -> int:
    connection = apsw.Connection(path)
    version = int(connection.pragma("user_version"))
    connection.close()
    return version


def is_whole(path: str) -> bool:
    """Opens, is sound, has every table, and takes a job."""
    with open_store(path, Settings()) as store:
        assert store.database.integrity() == "ok" and store.database.version == LATEST
        assert {"job", "run", "worker", "queue", "event", "orchestrator", "pulse", "migration"} <= tables(path)
        assert rows(store, "SELECT number FROM migration") == [(number,) for number in range(1, LATEST + 1)]
        return add(store) > 0


def test_from_nothing_to_the_newest(tmp_path: Path) -> None:
    path = bare(tmp_path / "rota.db")
    database = SqliteDatabase(path, FakeClock())
    assert migrate(database) == list(range(1, LATEST + 1))
    assert migrate(database) == []
    database.close()
    assert is_whole(path)


def test_migrations_are_numbered_without_a_gap_up_to_the_newest() -> None:
    assert list(migrations()) == list(range(1, LATEST + 1))
    assert all(1 <= oldest <= number for number, (_, oldest, _) in migrations().items())


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


def test_eight_programs_that_migrate_at_once_apply_each_migration_once(tmp_path: Path) -> None:
    path = bare(tmp_path / "rota.db")
    with ExitStack() as stack:
        programs = [stack.enter_context(python(MIGRATE, path)) for _ in range(8)]
        assert [line(program) for program in programs] == ["open"] * 8, "each has seen that there is no schema yet"
        for program in programs:
            say(program)
        applied = [number for program in programs for number in json.loads(output(program))]
    assert sorted(applied) == list(range(1, LATEST + 1))
    assert is_whole(path)


def test_killed_before_any_statement_of_its_making_there_is_a_whole_database_or_none(tmp_path: Path) -> None:
    path = str(tmp_path / "rota.db")
    for statement in range(1000):
        with python(CREATE, path, statement) as program:
            out, _ = program.communicate(timeout=60)
        if out.strip() == "whole":
            break
        assert program.returncode == -9
        assert not os.path.exists(path) or is_whole(path)
    assert statement > 40, "every statement had its turn"
    assert is_whole(path)


def test_killed_before_any_statement_of_a_migration_it_is_whole_or_undone(tmp_path: Path) -> None:
    path = bare(tmp_path / "rota.db")
    for statement in range(1000):
        with python(APPLY, path, statement) as program:
            out, _ = program.communicate(timeout=60)
        if out.strip() == "whole":
            break
        assert program.returncode == -9
        found, version = tables(path), version_of(path)
        made = {name for name, number in MADE_BY.items() if number <= version}
        assert found & MADE_BY.keys() == made, "each is whole or undone"
    assert statement > 30, "every statement had its turn"
    assert is_whole(path)


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
