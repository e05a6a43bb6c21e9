"""Empty databases as migrations leave them, put in place in one step: most tests want one, and few want it made.

Those that do have `rota init` or `migrate` make it.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import psycopg

from rota.core.times import Instant
from rota.settings import Settings
from rota.store.engine import rows
from rota.store.engine.statements import fill
from rota.store.migrate import migrations
from rota.store.open import POSTGRES, path_of
from rota.store.postgres.connection import address
from rota.store.postgres.dialect import GAPS, Texts
from rota.store.sqlite.create import create

NEVER: Instant = 0


def make(url: str) -> None:
    """Make an empty database of rota, a file or a schema, unless there is one."""
    if url.startswith(POSTGRES):
        _make_schema(url)
    elif not (path := Path(path_of(url))).exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(_file())


@cache
def _file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return Path(create(f"{folder}/rota.db", folder, None)).read_bytes()


def _make_schema(url: str) -> None:
    place = address(url, Settings().schema)
    with psycopg.connect(place.conninfo, autocommit=True) as connection:
        if connection.execute("SELECT to_regnamespace(%s)", [place.schema]).fetchone() == (None,):
            into = f"CREATE SCHEMA {place.schema}; SET LOCAL search_path TO {place.schema}"
            connection.execute(f"BEGIN; {into}; {_filling()}; COMMIT".encode())


@cache
def _filling() -> str:
    """Return all migrations of a schema as one text."""
    texts = Texts({})
    steps = []
    for number, (name, oldest, text) in migrations().items():
        steps.append(fill(text, {**rows.GAPS, **GAPS}))
        if (own := f"schema.after_{number}") in texts.own:
            steps.append(texts.plain(own))
        steps.append(f"INSERT INTO migration VALUES ({number}, '{name}', {oldest}, {NEVER})")
    return ";\n".join(steps)
