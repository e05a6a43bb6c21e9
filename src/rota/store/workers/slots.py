"""Slots: which a crew has, the state of each, and the history of its restarts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rota.core import slot as slots
from rota.core.errors import Contended, NotFound, Refused
from rota.core.record import Record
from rota.core.slot import History
from rota.store import ownership
from rota.store.engine.transaction import retry_conflicts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.times import Instant
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

MOST_OF_CREW, MOST_OF_TOKEN = 1000, 5000


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

    @retry_conflicts
    def take(self, crew: str, host: str, pools: Mapping[str, int]) -> list[Slot]:
        """The slots of a crew: its own rows first, failed ones too, then the lowest numbers that nobody has.

        The crews of one token over HTTP may have a bounded number of them.
        """
        with self._store.begin(exclusive=True) as tx:
            ownership.host(self._store, host)
            own = _by_queue(tx, crew, host)
            pools = {**dict.fromkeys(own, 0), **pools}
            if self._store.access is not None:
                _refuse_too_many(tx, self._store.access.id, own, pools)
            _resize(tx, crew, host, pools, own)
        return [slot for slot in self.of_crew(crew, host) if slot.wanted]

    @retry_conflicts
    def scale(self, crew: str, host: str, queue: str, count: int) -> None:
        """Set how many slots of a queue a crew has; the history of those it gives up is kept."""
        with self._store.write(exclusive=True) as tx:
            _resize(tx, crew, host, {queue: count}, _by_queue(tx, crew, host))
            tx.changed("slot", "scale", queue, count=count, by=tx.actor)
            tx.draw("directive")
            tx.something_to_claim = True

    def of_crew(self, crew: str, host: str) -> list[Slot]:
        return [to_slot(row) for row in self._store.database.execute("slot.of_crew", {"crew": crew, "host": host})]

    def all(self) -> list[Slot]:
        return [to_slot(row) for row in self._store.database.execute("slot.all", {})]

    def why(self, name: str) -> str:
        """Why a slot is as it is, in one sentence."""
        from rota.store.jobs.explain import why_slot

        found = self._store.database.execute("slot.get", {"name": name})
        if not found:
            raise NotFound(f"there is no slot {name}: `rota orchestrator status` shows those that are")
        return why_slot(self._store, to_slot(found[0]))

    @retry_conflicts
    def reset(self, name: str, forget: bool = False) -> None:
        """Clear a slot's history, so that it is filled again at once if it is empty; or remove it altogether."""
        with self._store.write(exclusive=True) as tx:
            slot = find(tx, name)
            if slot is None:
                raise NotFound(f"there is no slot {name}: `rota orchestrator status` shows those that are")
            if forget:
                tx.execute("slot.forget", name=name)
            else:
                remember(tx, name, History())
                if slot.status in (slots.FAILED, slots.BACKOFF):
                    move(tx, slot, slots.RESET, slots.EMPTY)
            tx.changed("slot", "forget" if forget else slots.RESET, name, by=tx.actor)
            tx.draw("directive")
            tx.something_to_claim = True


def find(tx: Transaction, name: str) -> Slot | None:
    """Return a slot as this transaction sees it; None when it was removed."""
    row = tx.one("slot.get", name=name)
    return None if row is None else to_slot(row)


def move(
    tx: Transaction, slot: Slot, verb: str, new: str, *, worker: str | None = None, start_at: Instant | None = None
) -> None:
    """Move a slot to another state, as its table allows; the caller has just read it."""
    tx.check_move(slots.MOVES, slot.status, verb, new)
    place = {"worker": worker, "start_at": start_at}
    if not tx.execute("slot.move", name=slot.name, old=slot.status, new=new, now=tx.now, **place):
        # On PostgreSQL the helper of an orphan may empty it meanwhile: make the whole change again.
        raise Contended(f"slot {slot.name} was moved meanwhile")
    tx.changed("slot", "move", slot.name, status=new, worker=worker)


def come_up(tx: Transaction, name: str, worker: str) -> None:
    """Move a slot to `up` once its worker is ready, unless the death of that worker was written first."""
    if tx.execute("slot.come_up", name=name, worker=worker, now=tx.now):
        tx.changed("slot", "move", name, status=slots.UP, worker=worker)


def stop(tx: Transaction, name: str) -> None:
    """Move a slot and its worker to `stopping`: the worker was asked to leave once it has finished its current job."""
    for (worker,) in tx.execute("slot.stop", name=name, now=tx.now):
        tx.execute("worker.stopping", id=worker)
        tx.changed("slot", "move", name, status=slots.STOPPING, worker=worker)


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


def _by_queue(tx: Transaction, crew: str, host: str) -> dict[str, list[Slot]]:
    """The slots that a crew has, wanted or not."""
    found: dict[str, list[Slot]] = {}
    for row in tx.execute("slot.of_crew", crew=crew, host=host):
        slot = to_slot(row)
        found.setdefault(slot.queue, []).append(slot)
    return found


def _refuse_too_many(tx: Transaction, access: str, own: Mapping[str, list[Slot]], pools: Mapping[str, int]) -> None:
    """Every look at a crew reads all slots, and one that was made keeps its history."""
    ((have,),) = tx.execute("slot.count_of_token", access=access)
    will = have + sum(max(0, count - len(own.get(queue, ()))) for queue, count in pools.items())
    if sum(pools.values()) > MOST_OF_CREW or will > MOST_OF_TOKEN:
        raise Refused(
            f"too many slots: one crew may have {MOST_OF_CREW:,} over HTTP, and all crews of a token {MOST_OF_TOKEN:,} "
            f"({will:,} with these): ask for fewer workers, or remove old slots with `rota reset SLOT --forget`"
        )


def _resize(tx: Transaction, crew: str, host: str, pools: Mapping[str, int], own: Mapping[str, list[Slot]]) -> None:
    for queue, count in pools.items():
        mine = own.get(queue, [])
        for place, slot in enumerate(mine):
            if slot.wanted != (place < count):
                tx.execute("slot.want", name=slot.name, wanted=int(place < count), now=tx.now)
        if count > len(mine):
            _make(tx, crew, host, queue, count - len(mine))


def _make(tx: Transaction, crew: str, host: str, queue: str, count: int) -> None:
    taken = {n for (n,) in tx.execute("slot.taken", queue=queue)}
    free = [n for n in range(len(taken) + count) if n not in taken][:count]
    tx.many("slot.make", [(slots.slot_name(queue, n), queue, n, crew, host, tx.now) for n in free])
    for n in free:
        tx.changed("slot", "make", slots.slot_name(queue, n), crew=crew)


def to_slot(row: Row) -> Slot:
    name, queue, n, crew, host, status, worker, wanted, start_at, health, restarts, *rest = row
    history = History(tuple(json.loads(restarts)), *rest)
    return Slot(name, queue, n, crew, host, status, worker, bool(wanted), start_at, history, health)
