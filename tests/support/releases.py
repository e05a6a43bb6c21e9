"""The release after this one: the same code with another version and one migration more, in a folder of its own.

So the code of this release is the one before it, with its workers and its orphans as they are installed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rota
from rota.store import migrate
from rota.store.migrate import LATEST
from tests.support.stores import TABLES

if TYPE_CHECKING:
    from rota.store.engine.database import Database

NEXT = "99.0"
# All that a migration may do beside code that goes on: every table gets a column that it does not know, one that must
# have a value too; an index is made anew, and there is a table more.
_EACH = (
    "ALTER TABLE {table} ADD COLUMN next_text TEXT;\nALTER TABLE {table} ADD COLUMN next_n $int64 NOT NULL DEFAULT 7;\n"
)
_MORE = """\
DROP INDEX job_held;
CREATE INDEX job_held ON job (worker, next_n) WHERE status = 'active';
CREATE TABLE next (job $int64 PRIMARY KEY, n $int64 NOT NULL);
INSERT INTO next (job, n) SELECT id, next_n FROM job;
"""


def next_migration(oldest: int = LATEST) -> tuple[str, int, str]:
    """Return that migration by number, as `migrations` does. `oldest` is the oldest schema whose code may finish."""
    return "next", oldest, "".join(_EACH.format(table=table) for table in (*TABLES, "slot")) + _MORE


def upgrade(database: Database) -> list[int]:
    """Bring a database to the schema of that release. Returns the numbers of the applied migrations."""
    following = {**migrate.migrations(), LATEST + 1: next_migration()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "migrations", lambda: following)
        return migrate.migrate(database)


def next_release(folder: Path, oldest: int = LATEST) -> str:
    """Return the `PYTHONPATH` of that release. `oldest` is the oldest schema whose code may finish."""
    shutil.copytree(Path(rota.__file__).parent, folder / "rota", copy_function=os.symlink)
    _write(folder / "rota/core/version.py", f'__version__ = "{NEXT}"\n')
    known = folder / "rota/store/migrate.py"
    _write(known, known.read_text().replace(f"LATEST = {LATEST}", f"LATEST = {LATEST + 1}"))
    name, oldest, text = next_migration(oldest)
    _write(folder / f"rota/store/sql/migrations/{LATEST + 1:04}_{name}.sql", f"-- oldest: {oldest}\n{text}")
    return str(folder)


def _write(path: Path, text: str) -> None:
    """Replace the link by a file, instead of writing through it."""
    path.unlink(missing_ok=True)
    path.write_text(text)
