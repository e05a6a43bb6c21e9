"""What keys do to the store; each action returns one sentence about its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.store.directives import until_acknowledged

if TYPE_CHECKING:
    from rota.store.store import Store
    from rota.top.snapshot import Snapshot

    Place = tuple[str, str]


def pause(store: Store, queue: str) -> str:
    changed = store.queues.pause(queue, None)
    until_acknowledged(store, f"queue {queue} is paused")
    return f"queue {queue} is paused" if changed else f"queue {queue} was paused already"


def resume(store: Store, queue: str) -> str:
    if store.queues.resume(queue):
        return f"queue {queue} is resumed"
    if not store.queues.is_open(queue):
        return f"queue {queue} is not paused itself, but everything is: `rota resume` without a queue ends that"
    return f"queue {queue} was not paused"


def scale(store: Store, queue: str, crew: str, host: str, size: int) -> str:
    store.slots.scale(crew, host, queue, size)
    return f"queue {queue} is scaled to {size} in crew {crew}"


def reset(store: Store, slot: str) -> str:
    store.slots.reset(slot)
    return f"{slot} is reset"


def cancel(store: Store, id: int) -> str:
    before = store.jobs.get(id)
    store.jobs.cancel(id)
    if before.orchestrator is not None:
        until_acknowledged(store, f"job {id} is cancelled")
    return f"job {id} is cancelled"


def retry(store: Store, id: int) -> str:
    store.jobs.retry(id)
    return f"job {id} is tried again"


def places(snapshot: Snapshot, queue: str, slot: str | None) -> list[tuple[Place, int]]:
    """Return where a queue can be scaled, by crew and host, and how many slots it has there.

    That is the crew of the slot, if one is chosen; else every crew with slots of the queue; else every live crew.
    """
    wanted = [other for other in snapshot.slots if other.queue == queue and other.wanted]
    chosen = [other for other in wanted if other.name == slot] or wanted
    crews = {(other.crew, other.host) for other in chosen} or {(live.crew, live.host) for live in snapshot.live}
    return [(place, sum((other.crew, other.host) == place for other in wanted)) for place in sorted(crews)]


def no_place(queue: str, candidates: list[tuple[Place, int]]) -> str:
    """Explain why it is not clear where to scale a queue."""
    if not candidates:
        return "no crew is running: `rota orchestrator start` begins one"
    return (
        f"several crews could serve {queue}: choose one of its slots, or use `rota scale {queue}=N --crew … --host …`"
    )
