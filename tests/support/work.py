"""Shortcuts for what most tests begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.claim import Done, Failed
from rota.store.claims.exchange import Idle, Report
from rota.store.jobs.enqueue import NewJob
from tests.support.stores import rows

if TYPE_CHECKING:
    from rota.core.claim import Claim
    from rota.store.claims.exchange import Exchange
    from rota.store.store import Store


def add(store: Store, title: str = "a job", **fields: Any) -> int:
    """Add one job, and return its id."""
    return store.jobs.add(NewJob(title, **fields)).id


def add_many(store: Store, count: int, **fields: Any) -> list[int]:
    return store.jobs.add_many([NewJob(f"job {number}", **fields) for number in range(count)])


def register(store: Store, name: str = "loop", **fields: Any) -> str:
    return store.workers.register(name, **fields).id


def claim(store: Store, job: int, worker: str | None = None, lease: int | None = None) -> Claim:
    return store.claims.claim(job, worker, lease)


def finish(store: Store, job: int) -> None:
    """Claim a job and settle it as done."""
    store.claims.settle(claim(store, job), Done())


def fail(store: Store, job: int, error: str = "it broke", again: bool = True) -> None:
    """Claim a job and settle it as failed."""
    store.claims.settle(claim(store, job), Failed(error, again))


def status(store: Store, job: int) -> str:
    return store.jobs.get(job).status


def last_event(store: Store) -> str:
    """Return the cursor of the last event."""
    return store.events.last()


def told(store: Store) -> int:
    """Return the number of the newest event; unchanged if no event was added since."""
    return int(rows(store, "SELECT coalesce(max(id), 0) FROM event")[0][0])


class Crew:
    """An orchestrator with supervised workers, which keeps its own running number."""

    def __init__(self, store: Store, workers: int = 1, queue: str = "default") -> None:
        self.store = store
        self.queue = queue
        self.id = store.orchestrators.join()
        self.workers = [
            store.orchestrators.register_worker(self.id, f"worker:{queue}:{n}", queue) for n in range(workers)
        ]
        self.number = 0

    def exchange(
        self, outcomes: list[Any] | None = None, room: int = 1, holdings: list[int] | None = None, late: int = 0
    ) -> Exchange:
        """Settle outcomes, and claim for every worker with that much room. `late` repeats an older running number."""
        idle = [Idle(worker, self.queue, room) for worker in self.workers if room]
        answer = self.store.orchestrators.exchange(
            self.id, self.number - late, Report(outcomes or [], idle, holdings=holdings)
        )
        self.number = answer.number
        return answer

    def renew(self) -> int:
        return self.store.orchestrators.renew(self.id)
