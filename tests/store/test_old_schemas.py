"""An older schema: brought to the next with every row in it, or refused untouched if it is from before 0.1."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import psycopg
import pytest

from rota.core.claim import Claim, Done, Released
from rota.core.errors import SchemaMismatch
from rota.core.job import UNKNOWN_KIND
from rota.settings import Settings
from rota.store.migrate import FIRST, LATEST
from rota.store.open import open_store
from rota.store.postgres.connection import address
from rota.store.sqlite.database import APPLICATION_ID
from tests.support.releases import upgrade
from tests.support.schemas import HELD, STATES, WORKER, Inside, filled
from tests.support.shell import Shell
from tests.support.stores import STORES, url_of

if TYPE_CHECKING:
    from rota.store.store import Store

DEFAULTS = """SELECT t.name || '.' || c.name, c.dflt_value FROM sqlite_schema t JOIN pragma_table_info(t.name) c
    WHERE t.type = 'table'"""
# As much of a development version's database as anybody looks at. Its clock was fixed in another boot.
BEFORE_0_1 = """\
CREATE TABLE migration (number BIGINT PRIMARY KEY, name TEXT, oldest BIGINT, applied_at BIGINT);
CREATE TABLE boot (id TEXT PRIMARY KEY, clock_offset BIGINT, seen_at BIGINT);
CREATE TABLE job (id BIGINT PRIMARY KEY, title TEXT);
INSERT INTO boot VALUES ('another', 1, 1);
INSERT INTO job VALUES (1, 'left behind');
INSERT INTO migration VALUES (1, 'first', 1, 1);
"""
VERBS = (
    ["init"],
    ["migrate"],
    ["list"],
    ["add", "Late"],
    ["worker", "register", "--name", "late"],
    ["orchestrator", "start"],
    ["serve"],
)


def test_the_rows_fill_every_column_of_every_table(tmp_path: Path) -> None:
    """A column whose rows all have what it has by itself would not tell whether an upgrade keeps what it holds."""
    with filled(url_of("sqlite", tmp_path)) as store, Inside(store) as inside:
        known, by_itself = inside.columns(), dict(inside.rows(DEFAULTS))
        held = inside.contents(known)
    missing = [
        f"{table}.{name}"
        for table, names in known.items()
        for n, name in enumerate(names)
        if not any(
            row[n] is not None and by_itself[f"{table}.{name}"] not in (str(row[n]), repr(row[n]))
            for row in held[table]
        )
    ]
    assert missing == [], "give these a value in tests/support/schemas.py"


@pytest.mark.parametrize("kind", STORES)
def test_every_row_is_there_after_an_upgrade_and_its_job_goes_on(kind: str, tmp_path: Path) -> None:
    with filled(url_of(kind, tmp_path)) as store, Inside(store) as inside:
        known = inside.columns()
        before = inside.contents(known)
        assert upgrade(store.database) == [LATEST + 1]
        after = inside.contents(known)
        for table, held in before.items():
            assert held and after[table] == held, table
        assert len(before["job"]) == len(STATES)
        carry_on(store)


def carry_on(store: Store) -> None:
    """What was held is settled with its token, what waited goes on, and numbers go on from where they were."""
    store.claims.settle(Claim(HELD, HELD, WORKER, 1, None), Done("1"))
    assert store.jobs.get(HELD).status == "done" and store.jobs.get(3).result == [3]
    claim = store.claims.claim(1)
    assert claim.token > 10
    store.claims.settle(claim, Done())
    assert store.jobs.get(6).status == "ready"
    assert store.jobs.retry(4).generation == 2
    counts = store.queues.counts()["tag"]
    assert (counts["done"], counts["ready"], counts["blocked"]) == (3, 3, 0), "the one that is due too"
    store.claims.settle(store.claims.claim(4), Released(None, UNKNOWN_KIND))
    assert store.jobs.get(4).blocked_on == UNKNOWN_KIND


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("number", [1, FIRST - 1])
def test_a_database_from_before_0_1_is_refused_by_every_command_and_left_as_it_is(
    number: int, kind: str, tmp_path: Path
) -> None:
    url = url_of(kind, tmp_path)
    make_before_0_1(kind, url, number)
    shell, before = Shell(tmp_path, ROTA_DB=url), everything_in(kind, url)
    message = (
        f"{url if kind == 'sqlite' else address(url).shown} was made by a development version of rota from before 0.1"
        f" (schema {number}), and this version cannot read it: work it off with that version, then start with a new"
        " database"
    )
    for verb in VERBS:
        assert shell.refuse(*verb, code=1) == message, verb
    assert message in shell.say("doctor", code=1)
    with pytest.raises(SchemaMismatch) as refusal:
        open_store(url, Settings(), make=True)
    assert str(refusal.value) == message
    assert everything_in(kind, url) == before


def make_before_0_1(kind: str, url: str, number: int) -> None:
    later = "".join(f"INSERT INTO migration VALUES ({n}, 'later', 1, 1);" for n in range(2, number + 1))
    if kind == "postgres":
        with psycopg.connect(address(url).conninfo, autocommit=True) as server:
            schema = address(url).schema
            server.execute(f"CREATE SCHEMA {schema}; SET search_path TO {schema}; {BEFORE_0_1} {later}".encode())
        return
    file = apsw.Connection(url)
    file.pragma("application_id", APPLICATION_ID)
    file.pragma("journal_mode", "wal")
    file.execute(BEFORE_0_1 + later)
    file.pragma("user_version", number)
    file.close()


def everything_in(kind: str, url: str) -> object:
    """The bytes of the file, or every table of the schema with the versions of its rows."""
    if kind == "sqlite":
        log = Path(f"{url}-wal")
        assert not log.exists() or os.path.getsize(log) == 0
        return Path(url).read_bytes()
    found: dict[str, list[tuple[Any, ...]]] = {}
    with psycopg.connect(address(url).conninfo, autocommit=True) as server:
        schema = address(url).schema
        for (table,) in server.execute("SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace", [schema]):
            if not table.endswith("_pkey"):
                text = f"SELECT ctid::text, xmin::text, t.* FROM {schema}.{table} t"
                found[table] = server.execute(text.encode()).fetchall()
    return found
