"""A database with rows in every table and a value in every column, and the contents of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.store.postgres.database import PostgresDatabase
from tests.support.clock import FakeClock
from tests.support.stores import reader, rows, store_at

if TYPE_CHECKING:
    from rota.store.store import Store

WORKER = "worker-00000001"
STATES = ("ready", "active", "done", "failed", "cancelled", "blocked", "scheduled")
_SQLITE_COLUMNS = "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table'"
_POSTGRES_COLUMNS = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
)
HELD = 2  # the job that is active, held by hand
FAR = 4_000_000_000_000_000
Values = dict[str, int | str | None]


def _job(id: int, status: str) -> Values:
    return {
        "id": id,
        "queue": "tag",
        "kind": "tag",
        "title": f"job {id}",
        "payload": f"[{id}]",
        "priority": id % 3,
        "status": status,
        "blocked_on": "dependency" if status == "blocked" else None,
        "due_at": 5 if status == "scheduled" else None,
        "key": f"key {id}",
        "attempts": 1,
        "max_attempts": 3,
        "deaths": 1,
        "dependents": int(id == 1),
        "created_at": 1,
        "finished_at": 2 if status in ("done", "failed", "cancelled") else None,
        "token": id,
        "worker": WORKER,
        "claimed_at": 1,
        "lease": 900,
        "lease_expires_at": FAR,
        "result": f"[{id}]",
        "checkpoint": '"half"',
    }


# What only one job has: columns that are empty in most.
DONE: Values = {
    "due_wall": 1,
    "limit_key": "one at a time",
    "parent": 1,
    "source": "files",
    "batch": 4,
    "schedule": "nightly",
    "trace": "00-trace-01",
    "timeout": 60,
    "generation": 2,
    "lapses": 1,
    "orchestrator": 1,
    "renewed_count": 5,
    "error": "once",
    "note": "a note",
    "transcript_path": "runs/3.out",
    "stderr_path": "runs/3.err",
    "captured_by": "token-1",
    "isolated": 1,
    "scheduled_for": 1,
    "unknown_until": 1,
}
ROWS: dict[str, list[Values]] = {
    "queue": [
        {"name": "tag", "concurrency": 5, "rate": "1000/s", "created_at": 1},
        {
            "name": "other",
            "paused_at": 1,
            "paused_by": "me",
            "pause_reason": "lunch",
            "max_depth": 9,
            "rate": "1/s",
            "rate_next_at": 1,
            "concurrency": 1,
            "per_key": 2,
            "breaker": 3,
            "failures": 1,
            "fence": "end",
            "created_at": 1,
        },
    ],
    "tally": [{"queue": "tag", "status": status, "shard": int(status == "failed"), "n": 1} for status in STATES],
    "job": [_job(id, status) | (DONE if status == "done" else {}) for id, status in enumerate(STATES, start=1)],
    "dependency": [{"job": 6, "needs": 1, "until_over": 1}],
    "ripple": [{"job": 5, "last_dependent": 1}],
    "run": [
        {
            "token": 3,
            "job": 3,
            "worker": WORKER,
            "attempt": 1,
            "generation": 1,
            "claimed_at": 1,
            "ended_at": 2,
            "verb": "finish",
            "reason": "asked",
            "error": "once",
            "note": "a note",
            "renewed_count": 5,
            "transcript_path": "runs/3.out",
            "stderr_path": "runs/3.err",
            "captured_by": "token-1",
        }
    ],
    "worker": [
        {
            "id": WORKER,
            "name": "old",
            "hostname": "here",
            "host": "boot/1",
            "status": "busy",
            "registered_at": 1,
            "last_heartbeat_at": 1,
            "success_count": 7,
            "metadata": "{}",
            "kinds": '["tag"]',
        },
        {
            "id": "worker-00000002",
            "name": "gone",
            "hostname": "here",
            "host": "boot/1",
            "pid": 7,
            "pid_start": 70,
            "nonce": "n",
            "status": "dead",
            "desired": "stop",
            "orchestrator": 1,
            "slot": "worker:tag:0",
            "queue": "tag",
            "version": "0.0.1",
            "registered_at": 1,
            "last_heartbeat_at": 1,
            "check_at": FAR,
            "lease_expires_at": FAR,
            "heartbeat_interval": 30,
            "heartbeat_count": 3,
            "success_count": 7,
            "error_count": 2,
            "last_error_at": 1,
            "last_error_message": "once",
            "current_job": 3,
            "metadata": "{}",
            "concurrency": 4,
            "access": "token-1",
        },
    ],
    "certificate": [
        {
            "worker": "worker-00000002",
            "slot": "worker:tag:0",
            "died_at": 1,
            "reason": "signaled",
            "text": "by signal 9",
            "exit_code": 137,
            "signal": 9,
            "sent_by": "me",
            "job": 3,
            "usage": "{}",
            "last_frame": "HEALTH",
            "stderr_tail": "oh",
        }
    ],
    "orchestrator": [
        {
            "id": 1,
            "crew": "main",
            "host": "boot/1",
            "hostname": "here",
            "pid": 6,
            "pid_start": 60,
            "nonce": "n",
            "version": "0.0.1",
            "status": "stopped",
            "lease_expires_at": 1,
            "exchange": 12,
            "acknowledged_directive": 3,
            "started_at": 1,
            "last_reconcile_at": 1,
            "pools": "{}",
            "settings": "{}",
            "desired": "drain",
            "access": "token-1",
            "worker_ids": "worker-00000009",
        }
    ],
    "pulse": [{"id": 1, "at": 1, "graced": 1, "grace_from": 1}],
    "event": [{"at": 1, "actor": "me", "facts": '[["job","add","tag",null,"ready",[1]]]'}],
    "slot": [
        {
            "name": "worker:tag:0",
            "queue": "tag",
            "n": 0,
            "crew": "main",
            "host": "boot/1",
            "status": "failed",
            "worker": "worker-00000002",
            "wanted": 0,
            "restarts": "[1, 2]",
            "lifetime": 2,
            "start_at": 1,
            "failed_at": 1,
            "failure_reason": "too many",
            "updated_at": 1,
            "health": "suspect",
            "unstarted": 1,
        }
    ],
    "source": [
        {
            "name": "files",
            "queue": "tag",
            "task": "tag",
            "every": 30_000_000,
            "low": 10,
            "batch": 100,
            "repeats": 2,
            "filler": 1,
            "more": 1,
            "fill_count": 3,
            "added_count": 14,
            "last_fill_at": 1,
            "last_fill_error": "once",
            "success_count": 12,
            "error_count": 2,
            "last_success_at": 1,
            "last_success_worker": WORKER,
            "last_error_at": 1,
            "last_error_message": "once",
            "last_error_worker": WORKER,
            "repeated_count": 1,
            "last_repeated_key": "key 3",
            "created_at": 1,
        }
    ],
    "source_memory": [{"source": "files", "hash": 77, "successes": 1, "at": 1, "token": 3, "reported": 1}],
    "token": [
        {
            "id": "token-1",
            "name": "ci",
            "scopes": "read",
            "hash": "digest",
            "created_by": "me",
            "created_at": 1,
            "last_used_at": 1,
            "revoked_at": 1,
        }
    ],
    "metric": [{"name": "done", "queue": "tag", "label": "", "bucket": 0, "shard": 1, "n": 3, "total": 9}],
    "metric_mark": [{"id": 1, "token": 3, "open_tokens": "[2]", "died_until": 1}],
    "schedule": [
        {
            "name": "nightly",
            "cron": "0 2 * * *",
            "timezone": "Europe/Berlin",
            "missed": "once",
            "queue": "tag",
            "kind": "tag",
            "payload": "[1]",
            "priority": 1,
            "max_attempts": 3,
            "timeout": 60,
            "declared": 1,
            "next_at": FAR,
            "last_at": 1,
            "fired_at": 1,
            "fired_count": 2,
            "last_job": 3,
            "error": "once",
            "paused_at": 1,
            "access": "token-1",
            "pause_reason": "lunch",
            "created_at": 1,
        }
    ],
}


def filled(url: str) -> Store:
    """Make a store with these rows, and set its counters beyond their ids and tokens."""
    store = store_at(url, FakeClock())
    rows(store, ";".join(_insert(table, values) for table in ROWS for values in ROWS[table]))
    for name in ("job", "token"):
        store.database.execute("number.draw_many", {"name": name, "count": 10})
    return store


def _insert(table: str, values: Values) -> str:
    """Insert a row, in place of the one that the schema begins with."""
    first = f"DELETE FROM {table};" if table in ("pulse", "metric_mark") else ""
    return f"{first}INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(map(_literal, values.values()))})"


def _literal(value: int | str | None) -> str:
    return "NULL" if value is None else str(value) if isinstance(value, int) else f"'{value}'"


class Inside:
    """The contents of a database, over a connection that stays open."""

    def __init__(self, store: Store) -> None:
        self._link = reader(store)
        self._schema = store.database.schema if isinstance(store.database, PostgresDatabase) else None
        self.rows = self._link.rows

    def __enter__(self) -> Inside:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of each table, except the schema's number, the clock's row and the empty gate."""
        found: dict[str, list[str]] = {}
        for table, column in sorted(self.rows(_SQLITE_COLUMNS if self._schema is None else _POSTGRES_COLUMNS)):
            if table not in ("migration", "boot", "gate", "sqlite_sequence"):
                found.setdefault(table, []).append(column)
        return found

    def indexes(self) -> list[str]:
        """Return the definition of each index."""
        if self._schema is None:
            return sorted(text for (text,) in self.rows("SELECT sql FROM sqlite_schema WHERE type = 'index'") if text)
        found = self.rows("SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()")
        return sorted(text.replace(f"{self._schema}.", "") for (text,) in found)

    def contents(self, known: dict[str, list[str]]) -> dict[str, list[tuple[Any, ...]]]:
        """Return all rows of these tables, with these columns only."""
        texts = {table: f"SELECT {', '.join(names)} FROM {table}" for table, names in known.items()}
        return {table: sorted(self.rows(text), key=repr) for table, text in texts.items()}
