"""Counting commits that came too late: after the refusal, aside, so that counting never changes what is answered."""

from __future__ import annotations

from rota.core.errors import RotaError, Stale

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate, ParamSpec, Protocol, TypeVar

    from rota.store.store import Store

    class Port(Protocol):
        """What has a store."""

        _store: Store

    Self = TypeVar("Self", bound=Port)
    P = ParamSpec("P")
    R = TypeVar("R")

STALE = "stale"


def counted(change: Callable[Concatenate[Self, P], R]) -> Callable[Concatenate[Self, P], R]:
    """For a method that only the holder of a claim may call: refused as `Stale`, it is counted."""

    def make(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return change(self, *args, **kwargs)
        except Stale:
            count(self._store)
            raise

    make.__name__, make.__doc__ = change.__name__, change.__doc__
    return make


def count(store: Store, times: int = 1) -> None:
    """Count refusals, if the store takes it; nothing is written into a caller's own transaction."""
    if store.database.is_borrowed:
        return
    try:
        with store.write() as tx:
            tx.many("metric.add", [(STALE, "", "", 0, times, 0)])
    except RotaError:  # who was refused has that to hear, not this
        pass
