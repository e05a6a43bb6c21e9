"""The port for access tokens. A secret is shown once, when it is made, and only its hash is kept."""

from __future__ import annotations

import hashlib
import hmac

from rota.core.access import AccessToken, checked_name, checked_scopes, id_of, secret_text, token_id
from rota.core.errors import Conflict, NotFound
from rota.core.record import Record
from rota.core.times import MINUTE
from rota.store.engine.transaction import retry_conflicts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.times import Instant
    from rota.store.store import Store

_USE_SHOWN_EVERY = MINUTE
_NOBODY = hashlib.sha256(b"").hexdigest()


class _StoredToken(Record):
    """A token as its row holds it; only `token.get` answers the hash of its secret."""

    id: str
    name: str
    scopes: str
    created_by: str
    created_at: Instant
    last_used_at: Instant | None
    revoked_at: Instant | None
    hash: str = ""

    @property
    def token(self) -> AccessToken:
        scopes = frozenset(self.scopes.split())
        return AccessToken(
            self.id, self.name, scopes, self.created_by, self.created_at, self.last_used_at, self.revoked_at
        )


class Tokens:
    """The port for access tokens."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retry_conflicts
    def create(self, name: str, scopes: Iterable[str]) -> tuple[AccessToken, str]:
        """Make a token; return it with its secret, which nobody can read again.

        Raises:
            Conflict: A token that was not revoked has this name.
        """
        checked_name(name)
        wanted = checked_scopes(scopes)
        id = token_id(self._store.entropy(8))
        secret = secret_text(id, self._store.entropy(32))
        with self._store.begin() as tx:
            if tx.one("token.living", name=name):
                raise Conflict(f"there is a token named {name!r} already: revoke it first, or choose another name")
            known = {"id": id, "name": name, "scopes": " ".join(sorted(wanted)), "hash": _hash(secret)}
            tx.execute("token.insert", created_by=tx.actor, now=tx.now, **known)
            tx.changed("token", "create", id, name=name, scopes=sorted(wanted), by=tx.actor)
        return self.get(id), secret

    def prove(self, secret: str) -> AccessToken | None:
        """Return the token that a secret belongs to, unless it was revoked; compare in constant time."""
        id = id_of(secret)
        stored = self._stored(id) if id else None
        # The hash is compared even for an unknown id, so that the time taken does not tell which ids exist.
        is_right = hmac.compare_digest(_hash(secret), stored.hash if stored else _NOBODY)
        return stored.token if stored and is_right and stored.revoked_at is None else None

    @retry_conflicts
    def used(self, token: AccessToken) -> None:
        """Note that a token was used, at most once a minute."""
        now = self._store.now()
        if token.last_used_at is None or now - token.last_used_at >= _USE_SHOWN_EVERY:
            with self._store.write() as tx:
                tx.execute("token.used", id=token.id, now=now)

    def get(self, id: str) -> AccessToken:
        stored = self._stored(id)
        if stored is None:
            raise NotFound(f"there is no token {id}: `rota token list` shows those that are")
        return stored.token

    def _stored(self, id: str) -> _StoredToken | None:
        return next((_StoredToken(*row) for row in self._store.database.execute("token.get", {"id": id})), None)

    def list(self) -> list[AccessToken]:
        return [_StoredToken(*row).token for row in self._store.database.execute("token.all", {})]

    @retry_conflicts
    def revoke(self, id: str) -> AccessToken:
        """Revoke a token: it opens nothing from now on, and streams that it opened end."""
        with self._store.write() as tx:
            if tx.execute("token.revoke", id=id, now=tx.now):
                tx.changed("token", "revoke", id, by=tx.actor)
        return self.get(id)


def _hash(secret: str) -> str:
    """Hash a secret. It has 32 random bytes, so a plain hash cannot be searched."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
