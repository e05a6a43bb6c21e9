"""Roles for who owns, enqueues, works and reads: made once, their rights given again each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.store.postgres.database import PostgresDatabase

KINDS = ("owner", "enqueue", "worker", "read")


def role(schema: str, kind: str) -> str:
    return f"{schema}_{kind}"


def make_roles(database: PostgresDatabase) -> list[str]:
    """Make the roles that are missing and give each its rights; those that were made."""
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
