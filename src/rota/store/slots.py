"""Slots: which a crew has, how each stands, and the history of its restarts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rota.core import slot as slots
from rota.core.errors import NotFound
from rota.core.record import Record
from rota.core.slot import History
from rota.store.again import again

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.times import Instant
    from rota.store.rows import Row
    from rota.store.store import Store
    from rota.store.transaction import Transaction


class Slot(Record):
    """A slot as the store knows it."""

    name: str
    queue: str
    n: int
    crew: str
    host: str
    status: str
    worker: str | None
    wanted: bool
    start_at: Instant | None
    history: History
    health: str | None = None


class Slots:
    """The port for slots."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @again
    def take(self, crew: str, host: str, pools: Mapping[str, int]) -> list[Slot]:
        """The slots of a crew: its own rows first, failed ones too, then the lowest numbers that nobody has."""
        with self._store.begin(alone=True) as tx:
            known = {to_slot(row).queue for row in tx.execute("slot.of_crew", crew=crew, host=host)}
            for queue in {**pools, **dict.fromkeys(known)}:
                _resize(tx, crew, host, queue, pools.get(queue, 0))
        return [slot for slot in self.of_crew(crew, host) if slot.wanted]

    @again
    def scale(self, crew: str, host: str, queue: str, count: int) -> None:
        """Let a crew have so many slots of a queue; the history of those it gives up stays."""
        with self._store.write(alone=True) as tx:
            _resize(tx, crew, host, queue, count)
            tx.tell("slot", "scale", queue, count=count, by=tx.actor)
            tx.draw("wish")
            tx.something_to_claim = True

    def of_crew(self, crew: str, host: str) -> list[Slot]:
        return [to_slot(row) for row in self._store.database.execute("slot.of_crew", {"crew": crew, "host": host})]

    def all(self) -> list[Slot]:
        return [to_slot(row) for row in self._store.database.execute("slot.all", {})]

    def why(self, name: str) -> str:
        """Why a slot is as it is, in one sentence."""
        from rota.store.why import why_slot

        found = self._store.database.execute("slot.get", {"name": name})
        if not found:
            raise NotFound(f"there is no slot {name}: `rota orchestrator status` shows those that are")
        return why_slot(self._store, to_slot(found[0]))

    @again
    def reset(self, name: str, forget: bool = False) -> None:
        """Clear a slot's history, so that it is filled again at once if it is empty; or remove it altogether."""
        with self._store.write(alone=True) as tx:
            row = tx.one("slot.get", name=name)
            if row is None:
                raise NotFound(f"there is no slot {name}: `rota orchestrator status` shows those that are")
            if forget:
                tx.execute("slot.forget", name=name)
            else:
                remember(tx, name, History())
                if (to_slot(row).status, slots.RESET) in slots.MOVES:
                    move(tx, name, slots.EMPTY, None, None)
            tx.tell("slot", "forget" if forget else slots.RESET, name, by=tx.actor)
            tx.draw("wish")
            tx.something_to_claim = True


def move(tx: Transaction, name: str, status: str, worker: str | None, start_at: Instant | None) -> None:
    tx.execute("slot.move", name=name, status=status, worker=worker, start_at=start_at, now=tx.now)
    tx.tell("slot", "move", name, status=status, worker=worker)


def come_up(tx: Transaction, name: str, worker: str) -> None:
    """The worker in a slot is ready."""
    if tx.execute("slot.come_up", name=name, worker=worker, now=tx.now):
        tx.tell("slot", "move", name, status=slots.UP, worker=worker)


def remember(tx: Transaction, name: str, history: History) -> None:
    tx.execute(
        "slot.remember",
        name=name,
        restarts=json.dumps(history.restarts),
        lifetime=history.lifetime,
        failed_at=history.failed_at,
        failure_reason=history.failure_reason,
        unstarted=history.unstarted,
        now=tx.now,
    )


def _resize(tx: Transaction, crew: str, host: str, queue: str, count: int) -> None:
    own = [to_slot(row) for row in tx.execute("slot.of_crew", crew=crew, host=host)]
    own = [slot for slot in own if slot.queue == queue]
    for place, slot in enumerate(own):
        tx.execute("slot.want", name=slot.name, wanted=int(place < count), now=tx.now)
    for _ in range(count - len(own)):
        _make(tx, crew, host, queue)


def _make(tx: Transaction, crew: str, host: str, queue: str) -> None:
    taken = {n for (n,) in tx.execute("slot.taken", queue=queue)}
    n = next(n for n in range(len(taken) + 1) if n not in taken)
    name = slots.slot_name(queue, n)
    tx.execute("slot.make", name=name, queue=queue, n=n, crew=crew, host=host, now=tx.now)
    tx.tell("slot", "make", name, crew=crew)


def to_slot(row: Row) -> Slot:
    name, queue, n, crew, host, status, worker, wanted, start_at, health, restarts, *rest = row
    history = History(tuple(json.loads(restarts)), *rest)
    return Slot(name, queue, n, crew, host, status, worker, bool(wanted), start_at, history, health)
