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
    """What lets a program use the HTTP API, as the store knows it; the secret itself is kept nowhere."""

    id: str
    name: str
    scopes: frozenset[str]
    created_by: str
    created_at: Instant
    last_used_at: Instant | None
    revoked_at: Instant | None

    def allows(self, scope: str) -> bool:
        """Whether it opens what needs this scope; admin opens everything, a revoked token nothing."""
        return self.revoked_at is None and (scope in self.scopes or ADMIN in self.scopes)


def token_id(entropy: bytes) -> str:
    """A token's id made of at least six random bytes."""
    return f"token-{base36(int.from_bytes(entropy, 'big') % 36**8)}"


def secret_text(id: str, entropy: bytes) -> str:
    """The text that a program presents: the id finds the row, the rest proves it."""
    return f"{_PREFIX}_{id.removeprefix('token-')}_{entropy.hex()}"


def id_of(secret: str) -> str | None:
    """The token that a presented text claims to be; None when it is no such text."""
    prefix, _, rest = secret.partition("_")
    id, _, proof = rest.partition("_")
    if prefix != _PREFIX or len(id) != 8 or not proof or not (id + proof).isascii() or not (id + proof).isalnum():
        return None
    return f"token-{id}"


def checked_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes as a set, or what is wrong with them."""
    found = frozenset(scopes)
    if not found:
        raise BadInput(f"a token needs a scope: one or more of {', '.join(SCOPES)}")
    for scope in sorted(found):
        if scope not in SCOPES:
            raise BadInput(f"{scope!r} is not a scope: one of {', '.join(SCOPES)}")
    return found


def is_local(name: str) -> bool:
    """Whether a server makes tokens of this name by itself, so that none was made by anybody."""
    return name == LOCAL or name.startswith(f"{LOCAL}@")


def own_name(name: str) -> str:
    """A name that a person may give a token."""
    if is_local(name):
        raise BadInput(f"{name!r} is the name of a token that a server makes by itself: choose another")
    return name


def checked_name(name: str) -> str:
    """A token's name stands in the event log as who did something, so it is short and plain."""
    if 0 < len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip():
        return name
    raise BadInput(f"{name!r} is not a token's name: at most {LONGEST_NAME} printable characters")
