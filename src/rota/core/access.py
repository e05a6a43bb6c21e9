"""Access to the HTTP API: scopes, and the text of a token, which names its row and proves itself."""

from __future__ import annotations

from rota.core.errors import BadInput
from rota.core.ids import base36
from rota.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.times import Instant

READ, ENQUEUE, WORK, ADMIN = "read", "enqueue", "work", "admin"
SCOPES = (READ, ENQUEUE, WORK, ADMIN)
LONGEST_NAME = 100
LOCAL = "local"  # the admin token that a server makes by itself; on PostgreSQL `local@host`
_PREFIX = "rota"


class AccessToken(Record):
    """An access token of the HTTP API as the store has it. The secret itself is kept nowhere."""

    id: str
    name: str
    scopes: frozenset[str]
    created_by: str
    created_at: Instant
    last_used_at: Instant | None
    revoked_at: Instant | None

    def allows(self, scope: str) -> bool:
        """Return whether it grants this scope: admin grants every scope, a revoked token none."""
        return self.revoked_at is None and (scope in self.scopes or ADMIN in self.scopes)


def token_id(entropy: bytes) -> str:
    """Make a token's id of at least six random bytes."""
    return f"token-{base36(int.from_bytes(entropy, 'big') % 36**8)}"


def secret_text(id: str, entropy: bytes) -> str:
    """Make the secret that a program presents: the id finds the row, the rest proves the right to it."""
    return f"{_PREFIX}_{id.removeprefix('token-')}_{entropy.hex()}"


def id_of(secret: str) -> str | None:
    """Return the id of the token that a secret claims to be, or None if it does not look like a secret."""
    prefix, _, rest = secret.partition("_")
    id, _, proof = rest.partition("_")
    if prefix != _PREFIX or len(id) != 8 or not proof or not (id + proof).isascii() or not (id + proof).isalnum():
        return None
    return f"token-{id}"


def checked_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return the scopes as a set.

    Raises:
        BadInput: There is none, or one is unknown.
    """
    result = frozenset(scopes)
    if not result:
        raise BadInput(f"a token needs a scope: one or more of {', '.join(SCOPES)}")
    for scope in sorted(result):
        if scope not in SCOPES:
            raise BadInput(f"{scope!r} is not a scope: one of {', '.join(SCOPES)}")
    return result


def is_local(name: str) -> bool:
    """Return whether this is the name of a token that a server makes by itself."""
    return name == LOCAL or name.startswith(f"{LOCAL}@")


def own_name(name: str) -> str:
    """Return a name that a person may give a token, or refuse it."""
    if is_local(name):
        raise BadInput(f"{name!r} is the name of a token that a server makes by itself: choose another")
    return name


def checked_name(name: str) -> str:
    """Return a token's name, or refuse it. The event log shows it as an actor, so it must be short and plain."""
    if 0 < len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip():
        return name
    raise BadInput(f"{name!r} is not a token's name: at most {LONGEST_NAME} printable characters")
