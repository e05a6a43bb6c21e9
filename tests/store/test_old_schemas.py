"""A database that any released schema has made comes to the newest with everything in it, and goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rota.core.claim import Claim, Done
from rota.settings import Settings
from rota.store import migrate as migrations
from rota.store.open import open_database
from rota.store.postgres.database import PostgresDatabase
from rota.store.store import Store
from tests.support.clock import FakeClock
from tests.support.stores import STORES, rows, url_of

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = migrations.migrations()
WORKER = "worker-00000001"
FINAL = ("done", "failed", "cancelled")
# What each schema may hold: since which, and the rows. Jobs in every state, one of them held by hand.
HELD = 2
STATES = ("ready", "active", "done", "failed", "cancelled", "blocked", "scheduled")
DATA: list[tuple[int, str]] = [
    (1, "INSERT INTO queue (name, concurrency, rate, created_at) VALUES ('tag', 5, '1000/s', 1)"),
    *(
        (
            1,
            "INSERT INTO job (id, queue, kind, title, payload, priority, status, blocked_on, due_at, key, attempts,"
            " max_attempts, deaths, dependents, created_at, finished_at, token, worker, claimed_at, lease,"
            f" lease_expires_at, result, checkpoint) VALUES ({id}, 'tag', 'tag', 'job {id}', '[{id}]', {id % 3},"
            f" '{status}', {'NULL' if status != 'blocked' else repr('dependency')},"
            f" {5 if status == 'scheduled' else 'NULL'}, 'key {id}', 1, 3, 1, {int(id == 1)}, 1,"
            f" {2 if status in FINAL else 'NULL'}, {id}, '{WORKER}', 1, 900, 4000000000000000, '[{id}]', '\"half\"')",
        )
        for id, status in enumerate(STATES, start=1)
    ),
    (1, "INSERT INTO dependency (job, needs) VALUES (6, 1)"),
    *((1, f"INSERT INTO tally (queue, status, n) VALUES ('tag', '{status}', 1)") for status in STATES),
    (
        1,
        "INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb, note)"
        f" VALUES (3, 3, '{WORKER}', 1, 1, 1, 2, 'finish', 'a note')",
    ),
    (
        1,
        "INSERT INTO worker (id, name, hostname, host, status, registered_at, last_beat_at, success_count, metadata)"
        f" VALUES ('{WORKER}', 'old', 'here', 'boot/1', 'busy', 1, 1, 7, '{{}}')",
    ),
    (
        1,
        "INSERT INTO certificate (worker, died_at, reason, signal, stderr_tail)"
        " VALUES ('worker-00000002', 1, 'signaled', 9, 'oh')",
    ),
    (1, 'INSERT INTO event (at, actor, facts) VALUES (1, \'me\', \'[["job","add","tag",null,"ready",[1]]]\')'),
    (
        2,
        "INSERT INTO slot (name, queue, n, crew, host, status, restarts, lifetime, updated_at)"
        " VALUES ('worker:tag:0', 'tag', 0, 'main', 'boot/1', 'failed', '[1, 2]', 2, 1)",
    ),
    (
        4,
        "INSERT INTO source (name, queue, task, every, low, batch, filler, success_count, created_at)"
        " VALUES ('files', 'tag', 'tag', 30000000, 10, 100, 1, 12, 1)",
    ),
    (4, "INSERT INTO source_memory (source, hash, successes, at, token) VALUES ('files', 77, 1, 1, 3)"),
    (
        6,
        "INSERT INTO token (id, name, scopes, hash, created_by, created_at)"
        " VALUES ('token-1', 'ci', 'read', 'digest', 'me', 1)",
    ),
    (6, "INSERT INTO meter (name, queue, label, bucket, n, total) VALUES ('done', 'tag', '', 0, 3, 9)"),
]


def made_by(number: int, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store as the release with this schema made and left it."""
    monkeypatch.setattr(migrations, "migrations", lambda: {n: KNOWN[n] for n in range(1, number + 1)})
    database = open_database(url_of(kind, folder), Settings(), make=True, clock=FakeClock())
    migrations.migrate(database)
    monkeypatch.undo()
    store = Store(database, Settings(), "old@here")
    assert database.version == number
    for since, text in DATA:
        if since <= number:
            rows(store, text)
    for name in ("job", "token"):
        store.database.execute("number.draw_many", {"name": name, "count": 10})
    return store


def contents(store: Store) -> dict[str, tuple[list[str], list[tuple[Any, ...]]]]:
    """Every table with its columns and its rows."""
    found = {}
    for table in sorted(_tables(store)):
        columns = _columns(store, table)
        found[table] = (columns, sorted(rows(store, f"SELECT {', '.join(columns)} FROM {table}"), key=repr))
    return found


def _tables(store: Store) -> list[str]:
    if isinstance(store.database, PostgresDatabase):
        text = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    else:
        text = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    return [str(name) for (name,) in rows(store, text) if name not in ("migration", "boot")]


def _columns(store: Store, table: str) -> list[str]:
    if isinstance(store.database, PostgresDatabase):
        text = (
            "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = "
        )
        return sorted(str(name) for (name,) in rows(store, f"{text}'{table}'"))
    return sorted(str(row[1]) for row in rows(store, f"PRAGMA table_info({table})"))


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("number", range(1, migrations.LATEST))
def test_the_data_of_every_released_schema_is_there_after_the_upgrade_and_goes_on(
    number: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made_by(number, kind, tmp_path, monkeypatch) as old:
        before = contents(old)
    database = open_database(url_of(kind, tmp_path), Settings(), clock=FakeClock())
    assert migrations.migrate(database) == list(range(number + 1, migrations.LATEST + 1))
    with Store(database, Settings(), "new@here") as store:
        for table, (columns, held) in before.items():
            now = rows(store, f"SELECT {', '.join(columns)} FROM {table}")
            assert sorted(now, key=repr) == held, table
        assert len(before["job"][1]) == len(STATES) and before["event"][1]
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
