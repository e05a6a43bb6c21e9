"""Waiting until every running orchestrator has carried out a wish."""

from __future__ import annotations

import time

from rota.core.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.store import Store

PATIENCE = 2.0
LOOK_AGAIN = 0.01


def until_heeded(store: Store, what: str) -> None:
    """Return once all have answered the last wish; after two seconds `Refused` names those that have not."""
    wish = store.orchestrators.last_wish()
    deadline = time.monotonic() + PATIENCE
    while (late := unheeded(store, wish)) and time.monotonic() <= deadline:
        time.sleep(LOOK_AGAIN)
    if late:
        raise not_heeded(what, late)


def unheeded(store: Store, wish: int) -> list[str]:
    """The orchestrators that have not answered this wish yet."""
    late = [each for each in store.orchestrators.live() if each.answered_wish < wish]
    return [f"orchestrator {each.pid} on {each.hostname}" for each in late]


def not_heeded(what: str, late: list[str]) -> Refused:
    return Refused(f"{what}, but {', '.join(late)} did not answer within {PATIENCE:g}s: a job may still start there")
