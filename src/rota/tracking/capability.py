"""Whether workers can be tracked in a database: what is missing, and which grants."""

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
    """A privilege on an object, and whether the role has it."""

    kind: str
    name: str
    privilege: str
    allowed: bool
    role: str


class Capability(Record):
    """Whether a role can report: `ready`, `absent` or `forbidden`, and the objects or grants that are missing."""

    state: str
    reason: str = ""


def read(connection: Connection) -> Capability:
    """Read from the catalogue whether the role of this connection can report."""
    rows = connection.execute(statement("client.rights")).fetchall()
    return judge([Right(*cast("tuple[str, str, str, bool, str]", row)) for row in rows])


def judge(rights: Iterable[Right]) -> Capability:
    """Decide what the rights in the catalogue allow."""
    rights = list(rights)
    present = {_qualified(right).partition("(")[0] for right in rights}
    missing = [name for name in NEEDED if name not in present]
    if missing:
        return Capability(ABSENT, f"not in this database: {', '.join(missing)}; `rota tracking install` makes them")
    grants = _grants([right for right in rights if not right.allowed])
    if grants:
        return Capability(FORBIDDEN, f"rights are missing: {'; '.join(grants)}")
    return Capability(READY)


def _grants(denied: list[Right]) -> list[str]:
    """Return the statements that would grant these rights, one per object."""
    privileges: dict[tuple[str, str], list[str]] = {}
    for right in denied:
        privileges.setdefault((_object(right), right.role), []).append(right.privilege)
    return [f"GRANT {', '.join(verbs)} ON {name} TO {_quoted(role)}" for (name, role), verbs in privileges.items()]


def _object(right: Right) -> str:
    return _qualified(right) if right.kind == "table" else f"{right.kind.upper()} {_qualified(right)}"


def _qualified(right: Right) -> str:
    return f"ai.{right.name}" if right.kind == "table" else right.name


def _quoted(role: str) -> str:
    plain = role.isascii() and role.isidentifier() and role == role.lower()
    return role if plain else '"' + role.replace('"', '""') + '"'
