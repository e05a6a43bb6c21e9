"""Waiting until every running orchestrator has carried out a wish."""

from __future__ import annotations

import time

from rota.core.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.store import Store

PATIENCE = 2.0


def until_heeded(store: Store, what: str) -> None:
    """Return once all have answered the last wish; after two seconds `Refused` names those that have not."""
    wish = store.orchestrators.last_wish()
    deadline = time.monotonic() + PATIENCE
    while True:
        late = [each for each in store.orchestrators.live() if each.answered_wish < wish]
        if not late:
            return
        if time.monotonic() > deadline:
            named = ", ".join(f"orchestrator {each.pid} on {each.hostname}" for each in late)
            raise Refused(f"{what}, but {named} did not answer within {PATIENCE:g}s: a job may still start there")
        time.sleep(0.01)
