"""Access tokens: made, proved, revoked. The secret is told once and only its hash is kept."""

from __future__ import annotations

import hashlib
import hmac

from rota.core.access import AccessToken, checked_name, checked_scopes, id_of, secret_text, token_id
from rota.core.errors import Conflict, NotFound
from rota.core.times import MINUTE
from rota.store.engine.conflict_retry import again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.store.engine.rows import Row
    from rota.store.store import Store

_USE_SHOWN_EVERY = MINUTE
_NOBODY = hashlib.sha256(b"").hexdigest()


class Tokens:
    """The port for access tokens."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @again
    def create(self, name: str, scopes: Iterable[str]) -> tuple[AccessToken, str]:
        """A new token and its secret, which nobody can read again."""
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
        """The living token that this secret belongs to; compared in constant time."""
        id = id_of(secret)
        rows = self._store.database.execute("token.get", {"id": id}) if id else []
        kept = rows[0][-1] if rows else _NOBODY
        if not hmac.compare_digest(_hash(secret), kept) or not rows:
            return None
        token = to_token(rows[0][:-1])
        return token if token.revoked_at is None else None

    @again
    def used(self, token: AccessToken) -> None:
        """Remember that it was used, at most once a minute."""
        now = self._store.now()
        if token.last_used_at is None or now - token.last_used_at >= _USE_SHOWN_EVERY:
            with self._store.write() as tx:
                tx.execute("token.used", id=token.id, now=now)

    def get(self, id: str) -> AccessToken:
        rows = self._store.database.execute("token.get", {"id": id})
        if not rows:
            raise NotFound(f"there is no token {id}: `rota token list` shows those that are")
        return to_token(rows[0][:-1])

    def list(self) -> list[AccessToken]:
        return [to_token(row) for row in self._store.database.execute("token.all", {})]

    @again
    def revoke(self, id: str) -> AccessToken:
        """It opens nothing from now on; streams that it opened end."""
        with self._store.write() as tx:
            if tx.execute("token.revoke", id=id, now=tx.now):
                tx.changed("token", "revoke", id, by=tx.actor)
        return self.get(id)


def to_token(row: Row) -> AccessToken:
    id, name, scopes, *rest = row
    return AccessToken(id, name, frozenset(scopes.split()), *rest)


def _hash(secret: str) -> str:
    """The secret has 32 random bytes, so a plain hash cannot be searched."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
