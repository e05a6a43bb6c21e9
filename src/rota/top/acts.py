"""What keys do to the store; each answers with one sentence about what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.store.directives import until_acknowledged

if TYPE_CHECKING:
    from rota.store.store import Store
    from rota.top.look import Look

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
    was = store.jobs.get(id)
    store.jobs.cancel(id)
    if was.orchestrator is not None:
        until_acknowledged(store, f"job {id} is cancelled")
    return f"job {id} is cancelled"


def retry(store: Store, id: int) -> str:
    store.jobs.retry(id)
    return f"job {id} is tried again"


def places(look: Look, queue: str, slot: str | None) -> list[tuple[Place, int]]:
    """Where a queue can be scaled, by crew and host, and how many slots it has there.

    The crew of the slot, if one is chosen; else those that have slots of the queue, else those that run.
    """
    wanted = [each for each in look.slots if each.queue == queue and each.wanted]
    found = [each for each in wanted if each.name == slot] or wanted
    crews = {(each.crew, each.host) for each in found} or {(each.crew, each.host) for each in look.live}
    return [(place, sum((each.crew, each.host) == place for each in wanted)) for place in sorted(crews)]


def no_place(queue: str, found: list[tuple[Place, int]]) -> str:
    """Why it is not clear where to scale a queue."""
    if not found:
        return "no crew is running: `rota orchestrator start` begins one"
    return (
        f"several crews could serve {queue}: choose one of its slots, or use `rota scale {queue}=N --crew … --host …`"
    )
