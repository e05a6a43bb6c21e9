"""Open, make or remove a schema of rota in a PostgreSQL database, and make the roles that may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.errors import NotFound, StoreError
from rota.store.migrate import refuse_development
from rota.store.postgres.connection import address
from rota.store.postgres.database import PostgresDatabase
from rota.store.postgres.dialect import KINDS, role

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.settings import Settings
    from rota.store.engine.database import Clock


def open_database(
    url: str, settings: Settings, make: bool, clock: Clock | None = None, told: Callable[[str], None] | None = None
) -> PostgresDatabase:
    """The database that `url` names; `make` makes the schema in it where there is none, for `migrate` to fill."""
    database = PostgresDatabase(address(url, settings.schema), clock)
    try:
        refuse_development(database.version, database.path)
        if database.version == 0:
            _prepare(database, make, told)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: PostgresDatabase, make: bool, told: Callable[[str], None] | None) -> None:
    if database.is_foreign():
        raise StoreError(
            f"schema {database.schema} of {database.path} holds another program's tables:"
            " name another with ?schema=NAME, or the setting `schema`"
        )
    if not make:
        raise NotFound(f"there is no schema {database.schema} of rota in {database.path}: `rota init` makes one")
    with database.write(exclusive=True):
        made = not database.execute("schema.there", {"schema": database.schema})
        if made:
            database.execute("schema.make", {})
    if made and told:
        told(f"made schema {database.schema} in {database.path}")


def remove(url: str, settings: Settings) -> None:
    """Drop the schema that `url` names, with all that is in it."""
    database = PostgresDatabase(address(url, settings.schema))
    try:
        with database.write(exclusive=True):
            database.execute("schema.remove", {})
    finally:
        database.close()


def make_roles(database: PostgresDatabase) -> list[str]:
    """Make the roles that are missing, give each its rights again, and return the names of those made."""
    made = []
    with database.write(exclusive=True):
        for kind in KINDS:
            name = role(database.schema, kind)
            if not database.execute("role.of", {"role": name}):
                database.execute(f"role.make_{kind}", {})
                made.append(name)
        for (statement,) in database.execute("role.to_own", {}):
            database.script(statement)
        database.script(database.texts.plain("role.grant"))
        for (statement,) in database.execute("role.but_access", {}):
            database.script(statement)
    return made
