"""The schema page: the tables as SQLite has them after all migrations, and what PostgreSQL adds."""

from __future__ import annotations

import apsw

from docs.pages.markdown import code, join, sentence, table
from rota.store.engine import rows
from rota.store.engine.statements import fill
from rota.store.migrate import migrations
from rota.store.sqlite.database import GAPS

# Columns of `job` that no statement writes.
UNFILLED = ("batch", "schedule")
INTRODUCTION = f"""\
# Schema

The database is yours to read: any SQLite tool can, while workers run. In a process that also uses rota, read it through
`apsw`, not through Python's `sqlite3`: that is a second SQLite library, which ends the locks of the first when it
closes the file. rota loses nothing by that, but such a reader may see a mixture of two moments
([durability](../explanation/durability.md#beside-other-programs)). Write only through rota, which keeps the
counters, the event log and the checks across tables true. Instants are microseconds since 1970 UTC on the store's
clock, durations are microseconds, JSON is text. Columns of `job` that nothing fills yet
({", ".join(map(code, UNFILLED))}) stand ready, so that later versions need not rewrite rows; `trace` is the W3C trace
that a job was added in.

On PostgreSQL the same tables stand in one schema, integers are `BIGINT`, and besides there are: `event.xid`, the
transaction that wrote an event, with an index; and two sequences, `number_job` and `number_token`, instead of two rows
of `number`."""

MEANINGS = {
    "boot": "the store's clock: what to add to the time since boot, fixed once per boot",
    "certificate": "how a worker died; one per worker life",
    "dependency": "`job` waits until `needs` is done",
    "event": "the log: one row per transaction, telling all it changed",
    "job": "the jobs, each with the columns of its last claim",
    "metric": "what the metrics have counted, by queue and bucket",
    "metric_mark": "up to which death they have counted",
    "migration": "which migrations were applied, and the oldest code that may work beside each",
    "number": "counters that only grow: job ids, tokens, directives, orchestrators; and one cursor",
    "orchestrator": "orchestrators: their lease, the number of their exchanges, the directive last acknowledged",
    "pulse": "when some orchestrator last renewed; tells a store that was away from a host that was",
    "queue": "the queues with their limits and pauses; `*` stands for all",
    "ripple": "settled jobs with so many dependents that some are still to be looked at",
    "run": "what each ended claim did",
    "slot": "the places that workers fill, with the history of their restarts",
    "schedule": "when each schedule is due by the wall clock, the job that it adds then, and the last one it added",
    "source": "the sources that workers declared, with their progress",
    "source_memory": "keys of sources that succeeded of late, as hashes: how often, when, and with which token",
    "tally": "how many jobs of each queue are in each state",
    "token": "access tokens of the HTTP API; of each secret only the hash",
    "worker": "the workers, one row per life",
}


def page() -> str:
    database = apsw.Connection(":memory:")
    for _, _, text in migrations().values():
        database.execute(fill(text, {**rows.GAPS, **GAPS}))
    names = [
        str(name) for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")
    ]
    ours = [name for name in names if not name.startswith("sqlite_")]
    return join(INTRODUCTION, _migrations(), *(part for name in ours for part in _table(database, name)))


def _migrations() -> str:
    found = [(code(f"{n:04}"), name, code(str(oldest))) for n, (name, oldest, _) in migrations().items()]
    return table(("migration", "name", "oldest schema whose code may work beside it"), found)


def _table(database: apsw.Connection, name: str) -> list[str]:
    columns = []
    for _, column, kind, required, default, key in database.execute(f"PRAGMA table_info({name})"):
        rule = "primary key" if key else "required" if required else ""
        columns.append((code(str(column)), str(kind), rule, code(str(default)) if default is not None else ""))
    indexes = database.execute(
        "SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL ORDER BY name", (name,)
    ).fetchall()
    parts = [f"## {name}", sentence(MEANINGS[name]), table(("column", "type", "rule", "default"), columns)]
    if indexes:
        parts.append("```sql\n" + "\n".join(f"{sql};" for (sql,) in indexes) + "\n```")
    return parts
