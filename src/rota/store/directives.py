"""Wait until every live orchestrator has acknowledged a directive."""

from __future__ import annotations

import time

from rota.core.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.store import Store

PATIENCE = 2.0
LOOK_AGAIN = 0.01


def until_acknowledged(store: Store, what: str) -> None:
    """Return once all have acknowledged the last directive; after 2 s raise `Refused`, naming those that have not."""
    directive = store.orchestrators.last_directive()
    deadline = time.monotonic() + PATIENCE
    while (late := unacknowledged(store, directive)) and time.monotonic() <= deadline:
        time.sleep(LOOK_AGAIN)
    if late:
        raise not_acknowledged(what, late)


def unacknowledged(store: Store, directive: int) -> list[str]:
    """Return the orchestrators that have not acknowledged this directive."""
    late = [each for each in store.orchestrators.live() if each.acknowledged_directive < directive]
    return [f"orchestrator {each.pid} on {each.hostname}" for each in late]


def not_acknowledged(what: str, late: list[str]) -> Refused:
    return Refused(f"{what}, but {', '.join(late)} did not answer within {PATIENCE:g}s: a job may still start there")
