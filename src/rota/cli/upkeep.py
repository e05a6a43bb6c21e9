"""`init`, `reconcile`, `prune`, `migrate`: what keeps a store in order."""

from __future__ import annotations

import os
import sys

from rota import wire
from rota.cli.call import aside
from rota.core.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.cli.call import Call


def init(call: Call) -> int:
    """Make a database here, or where `--db` says; one that is there stays as it is."""
    from rota.store.open import FOLDER, open_store
    from rota.store.sqlite.create import create

    settings = call.settings()
    told: list[str] = []
    if settings.db is None and not os.path.lexists(FOLDER):
        create(None, os.getcwd(), told.append)
    with open_store(settings.db, settings, make=True, told=told.append) as store:
        path, version = store.database.path, store.database.version
    if call.json:
        for text in told:
            aside(text)
        call.document({"path": path, "made": bool(told), "schema": version})
    else:
        call.say(told[0] if told else f"there is a database at {path} already")
    return 0


def reconcile(call: Call) -> int:
    """Make the store true, or say what that would take."""
    with call.store() as store:
        found = store.reconcile(plan=bool(call["plan"]))
    document = wire.reconciled(found)
    if call.json:
        call.document(document)
    elif not any(document.values()):
        call.say("nothing to mend")
    else:
        words = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in document.items() if count)
        call.say(f"would mend: {words}" if call["plan"] else words)
    return 0


def prune(call: Call) -> int:
    """Forget what is old."""
    with call.store() as store:
        gone = store.history.prune(call["older"], call["keep"], _progress())
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if call.json:
        call.document({"jobs": gone.jobs, "events": gone.events, "workers": gone.workers})
    else:
        call.say(f"forgot {gone.jobs:,} jobs with their runs, {gone.events:,} events, {gone.workers:,} workers")
    return 0


def migrate(call: Call) -> int:
    """Bring the database to this rota's schema."""
    from rota.store.migrate import is_outdated, migrate
    from rota.store.open import find, path_of
    from rota.store.sqlite.database import SqliteDatabase

    settings = call.settings()
    path = path_of(settings.db) if settings.db else find(os.getcwd())
    if path is None:
        raise NotFound("there is no database here or in any folder above: `rota init` makes one")
    database = SqliteDatabase(path, on_wait=aside)
    try:
        before, applied = database.version, migrate(database)
        is_outdated(database)
    finally:
        database.close()
    if call.json:
        call.document({"schema": database.version, "before": before, "applied": applied})
    elif applied:
        call.say(f"schema {database.version}: applied {', '.join(map(str, applied))}")
    else:
        call.say(f"schema {database.version}: nothing to apply")
    return 0


def _progress() -> Callable[[int], None] | None:
    """How far it is, for someone who watches."""
    if not sys.stderr.isatty():
        return None

    def show(count: int) -> None:
        sys.stderr.write(f"\rforgetting … {count:,} jobs")
        sys.stderr.flush()

    return show
