"""Whether a worker can be tracked here: what is missing, and which grants."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rota.core.record import Record
from rota.tracking.postgres import statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.tracking.postgres import Connection

READY, ABSENT, FORBIDDEN = "ready", "absent", "forbidden"
NEEDED = (
    "ai.vectorizer_worker_process",
    "ai.vectorizer_worker_progress",
    "ai._worker_start",
    "ai._worker_heartbeat",
    "ai._worker_progress",
)


class Right(Record):
    """One thing that a role may or may not do."""

    kind: str
    name: str
    privilege: str
    allowed: bool
    role: str


class Presence(Record):
    """`ready`, `absent` or `forbidden`, and why: what is not there, or the grants that are missing."""

    state: str
    reason: str = ""


def look(connection: Connection) -> Presence:
    """Whether this connection's role can report here."""
    rows = connection.execute(statement("client.rights")).fetchall()
    return judge([Right(*cast("tuple[str, str, str, bool, str]", row)) for row in rows])


def judge(rights: Iterable[Right]) -> Presence:
    """What the rights found in the catalogue amount to."""
    rights = list(rights)
    there = {_qualified(right).partition("(")[0] for right in rights}
    missing = [name for name in NEEDED if name not in there]
    if missing:
        return Presence(ABSENT, f"not in this database: {', '.join(missing)}; `rota tracking install` makes them")
    grants = _grants([right for right in rights if not right.allowed])
    if grants:
        return Presence(FORBIDDEN, f"rights are missing: {'; '.join(grants)}")
    return Presence(READY)


def _grants(denied: list[Right]) -> list[str]:
    """The statements that would give these rights, one per object."""
    wanted: dict[tuple[str, str], list[str]] = {}
    for right in denied:
        wanted.setdefault((_object(right), right.role), []).append(right.privilege)
    return [f"GRANT {', '.join(which)} ON {name} TO {_quoted(role)}" for (name, role), which in wanted.items()]


def _object(right: Right) -> str:
    return _qualified(right) if right.kind == "table" else f"{right.kind.upper()} {_qualified(right)}"


def _qualified(right: Right) -> str:
    return f"ai.{right.name}" if right.kind == "table" else right.name


def _quoted(role: str) -> str:
    plain = role.isascii() and role.isidentifier() and role == role.lower()
    return role if plain else '"' + role.replace('"', '""') + '"'
