"""What the ports of a remote store have in common."""

from __future__ import annotations

from rota.core.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.store.remote.client import Link
    from rota.store.remote.store import RemoteStore
    from rota.store.store import Store


class Port:
    """A port over the API. What the API does not offer is refused by name."""

    def __init__(self, store: RemoteStore) -> None:
        self._store: Store = store
        self._remote = store

    @property
    def _link(self) -> Link:
        return self._remote.link

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise not_offered(
            f"{type(self).__name__.removeprefix('Remote').lower()}.{name}", self._remote.link.address.shown
        )


def not_offered(what: str, where: str) -> Refused:
    return Refused(f"the HTTP API at {where} does not offer {what}: do it where the database is")
