"""Migrations: numbered files, each whole or not at all, safe when many programs start at once."""

from __future__ import annotations

import os

from rota.core.errors import SchemaMismatch
from rota.store.engine import rows
from rota.store.engine.statements import FOLDER, fill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.engine.database import Database

LATEST = 9
_MIGRATIONS = os.path.join(FOLDER, "migrations")


def migrations() -> dict[int, tuple[str, int, str]]:
    """Every migration by number: its name, the oldest code that may still work beside it, and its text."""
    found = {}
    for file in sorted(os.listdir(_MIGRATIONS)):
        number, _, name = file.removesuffix(".sql").partition("_")
        with open(os.path.join(_MIGRATIONS, file), encoding="utf-8") as text:
            first, _, body = text.read().partition("\n")
        found[int(number)] = (name, int(first.removeprefix("-- oldest: ")), body)
    return found


def tables() -> set[str]:
    """The tables that all migrations together leave."""
    import re

    found: set[str] = set()
    for _, _, text in migrations().values():
        found |= set(re.findall(r"^CREATE TABLE (\w+)", text, re.MULTILINE))
        found -= set(re.findall(r"^DROP TABLE (\w+)", text, re.MULTILINE))
        for old, new in re.findall(r"^ALTER TABLE (\w+) RENAME TO (\w+)", text, re.MULTILINE):
            found = found - {old} | {new}
    return found


def missing(there: set[str]) -> str | None:
    """The tables that another program has removed, as people read it."""
    gone = sorted(tables() - there)
    return f"without the table{'s' * (len(gone) > 1)} {', '.join(gone)}" if gone else None


def migrate(database: Database) -> list[int]:
    """Bring the database to this code's schema; the numbers of the migrations that were applied here."""
    applied = []
    for number, (name, oldest, text) in migrations().items():
        if number <= database.version:
            continue
        with database.write(exclusive=True):
            if database.refresh_version() >= number:
                continue
            database.script(fill(text, {**rows.GAPS, **database.gaps()}), number)
            database.execute(
                "migration.record", {"number": number, "name": name, "oldest": oldest, "now": database.wall()}
            )
            database.set_version(number)
        applied.append(number)
    return applied


def is_outdated(database: Database) -> bool:
    """Whether this code is older than the schema but may still finish beside it; older still is refused."""
    if database.version <= LATEST:
        return False
    ((oldest,),) = database.execute("migration.oldest", {})
    if oldest > LATEST:
        raise SchemaMismatch(
            f"this database has schema {database.version}, made by a newer rota; this one knows {LATEST}: upgrade"
        )
    return True
