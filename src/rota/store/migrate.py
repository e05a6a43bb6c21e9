"""Migrations: numbered files, each whole or not at all, safe when many programs start at once."""

from __future__ import annotations

import os

from rota.core.errors import SchemaMismatch
from rota.store.engine import rows
from rota.store.engine.statements import FOLDER, fill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.engine.database import Database

FIRST = 10  # 1 to 9 were the schemas of development; their numbers are not used again
LATEST = 10
_MIGRATIONS = os.path.join(FOLDER, "migrations")


def migrations() -> dict[int, tuple[str, int, str]]:
    """Return every migration by number: its name, the oldest code that may still work beside it, and its text."""
    found = {}
    for file in sorted(os.listdir(_MIGRATIONS)):
        number, _, name = file.removesuffix(".sql").partition("_")
        with open(os.path.join(_MIGRATIONS, file), encoding="utf-8") as text:
            first, _, body = text.read().partition("\n")
        found[int(number)] = (name, int(first.removeprefix("-- oldest: ")), body)
    return found


def tables() -> set[str]:
    """Return the tables that all migrations together make."""
    import re

    return {
        name for _, _, text in migrations().values() for name in re.findall(r"^CREATE TABLE (\w+)", text, re.MULTILINE)
    }


def missing(there: set[str]) -> str | None:
    """Say which tables another program has removed; None if all are there."""
    gone = sorted(tables() - there)
    return f"without the table{'s' * (len(gone) > 1)} {', '.join(gone)}" if gone else None


def refuse_development(version: int, path: str) -> None:
    """Refuse a database of a development version, by the schema number that it has.

    Raises:
        SchemaMismatch: The number is one of those from before 0.1, which no migration leads away from.
    """
    if 0 < version < FIRST:
        raise SchemaMismatch(
            f"{path} was made by a development version of rota from before 0.1 (schema {version}), and this version"
            " cannot read it: work it off with that version, then start with a new database"
        )


def migrate(database: Database) -> list[int]:
    """Bring the database to this code's schema; return the numbers of the migrations that were applied."""
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
    """Return whether this code is older than the schema but may still finish what it holds; refuse older code."""
    if database.version <= LATEST:
        return False
    ((oldest,),) = database.execute("migration.oldest", {})
    if oldest > LATEST:
        raise SchemaMismatch(
            f"this database has schema {database.version}, made by a newer rota; this one knows {LATEST}: upgrade"
        )
    return True
