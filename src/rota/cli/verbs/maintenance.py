"""Maintenance of a store: `reconcile`, `prune`, `migrate`."""

from __future__ import annotations

import sys

from rota import documents
from rota.cli.invocation import aside
from rota.cli.verb import Option, verb
from rota.core.errors import BadInput
from rota.store.maintenance.reconcile import raise_numbers
from rota.store.migrate import is_outdated
from rota.store.migrate import migrate as apply_migrations
from rota.store.open import implicit_name, open_database
from rota.store.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.cli.invocation import Call
    from rota.settings import Settings
    from rota.store.engine.database import Database


@verb(
    "reconcile",
    "make the store true: dead workers, lapsed leases, orphans, stale states",
    "rota reconcile --plan",
    options=(Option("--plan", "say what it would do, and change nothing"),),
    aliases=("orchestrator reconcile",),
)
def reconcile(call: Call) -> int:
    with call.store() as store:
        result = store.reconcile(plan=bool(call["plan"]))
    document = documents.reconciled(result)
    if call.json:
        call.document(document)
    elif not any(document.values()):
        call.say("nothing to mend")
    else:
        words = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in document.items() if count)
        call.say(f"would mend: {words}" if call["plan"] else words)
    return 0


@verb(
    "prune",
    "forget old final jobs, runs, events and workers that are gone",
    "rota prune --older 7d",
    options=(
        Option("--older", "what ended longer ago; else as `keep_for` and `keep_failed` say", "D", "duration"),
        Option("--keep", "final jobs per queue to keep at most; else as `keep_jobs` says", "N", "whole"),
        Option("--dry-run", "only say how much would be forgotten"),
    ),
)
def prune(call: Call) -> int:
    with call.store() as store:
        plan = bool(call["dry_run"])
        gone = store.history.prune(call["older"], call["keep"], _progress(), plan=plan)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    does = "would forget" if plan else "forgot"
    text = f"{does} {gone.jobs:,} jobs with their runs, {gone.events:,} events, {gone.workers:,} workers"
    return call.answer({"jobs": gone.jobs, "events": gone.events, "workers": gone.workers}, text)


@verb(
    "migrate",
    "bring the database to this rota's schema",
    "rota migrate",
    options=(
        Option("--roles", "on PostgreSQL, make roles to own, enqueue, work and read, and give their rights"),
        Option("--after-restore", "leave out every number that may have been given out since the backup was made"),
    ),
)
def migrate(call: Call) -> int:
    settings = call.settings()
    database = open_database(settings.db, settings, told=aside)
    try:
        before, applied = database.version, apply_migrations(database)
        is_outdated(database)
        roles = _finish_postgres(database, bool(call["roles"])) if database.dialect == "postgres" else None
        if roles is None and call["roles"]:
            raise BadInput("roles are PostgreSQL's: a file has an owner and a mode instead")
        left_out = _after_restore(database, settings) if call["after_restore"] else None
    finally:
        database.close()
    if call.json:
        optional = {"roles": roles, "left_out": left_out}
        extra = {name: value for name, value in optional.items() if value is not None}
        call.document({"schema": database.version, "before": before, "applied": applied, **extra})
        return 0
    done = f"applied {', '.join(map(str, applied))}" if applied else "nothing to apply"
    call.say(f"schema {database.version}: {done}")
    if roles is not None:
        call.say(f"roles: made {', '.join(roles)}" if roles else "roles: all were there; their rights were given again")
    if left_out is not None:
        call.say(f"left out {left_out:,} job ids and tokens: none of those is given out that the lost time has seen")
    return 0


def _after_restore(database: Database, settings: Settings) -> int:

    return raise_numbers(Store(database, settings, implicit_name(), False))


def _finish_postgres(database: Database, roles: bool) -> list[str] | None:
    """Rebase a restored event log, and create roles where asked for. PostgreSQL only."""
    # psycopg may not be installed.
    from rota.store.postgres.database import PostgresDatabase
    from rota.store.postgres.open import make_roles

    assert isinstance(database, PostgresDatabase)
    database.log.rebase()
    return make_roles(database) if roles else None


def _progress() -> Callable[[int], None] | None:
    """Return a function that shows the progress, or None if stderr is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(count: int) -> None:
        sys.stderr.write(f"\rforgetting … {count:,} jobs")
        sys.stderr.flush()

    return show
