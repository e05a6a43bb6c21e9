"""Threads that claim, settle, renew, cancel, leave, beat and tend the same few jobs: nobody waits in a circle."""

from __future__ import annotations

import random
from threading import Barrier, Thread
from typing import TYPE_CHECKING

from rota.core.claim import Done, Failed, Released
from rota.core.errors import RotaError, StoreError
from rota.core.event import JobMoved
from rota.core.times import MILLISECOND, SECOND
from rota.store.claims.exchange import Idle, Report
from tests.support.postgres import shared
from tests.support.stores import again, rows, store_at
from tests.support.work import add_many

if TYPE_CHECKING:
    from rota.core.claim import Claim, Outcome
    from rota.store.claims.exchange import Settled
    from rota.store.store import Store

OUTCOMES: list[Outcome] = [Done(), Failed("x"), Released()]
HANDS, CREWS, TURNS, JOBS = 5, 2, 60, 8
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


def by_hand(store: Store, dice: random.Random, jobs: list[int]) -> None:
    """One worker's life after another, on the same jobs as everyone."""
    worker, held = store.workers.register("hand", every=SECOND).id, list["Claim"]()
    for _ in range(TURNS):
        try:
            match dice.randrange(8):
                case 0 | 1:
                    held.append(store.claims.claim(dice.choice(jobs), worker, dice.choice([MILLISECOND, SECOND])))
                case 2:
                    held.append(store.claims.take(worker))
                case 3 | 4 if held:
                    store.claims.settle(held.pop(), dice.choice(OUTCOMES))
                case 5 if held:
                    store.claims.renew(held[-1])
                case 6:
                    store.jobs.cancel(dice.choice(jobs))
                case 7:
                    store.workers.deregister(worker)
                    worker = store.workers.register("hand", every=SECOND).id
                case _:
                    store.tick()
        except StoreError:
            raise
        except RotaError:  # refused, as many of these must be
            pass
        store.workers.heartbeat(worker)


def as_crew(store: Store, dice: random.Random, jobs: list[int]) -> None:
    """An orchestrator with two workers, which settles what it gets and retries what is over."""
    id = store.orchestrators.join()
    workers = [store.orchestrators.register_worker(id, f"worker:default:{n}", "default") for n in range(2)]
    number, outcomes = 0, list["Settled"]()
    for _ in range(TURNS):
        idle = [Idle(worker, "default", 2) for worker in workers]
        answer = store.orchestrators.exchange(id, number, Report(outcomes, idle))
        number = answer.number
        outcomes = [(each.job_id, each.token, dice.choice(OUTCOMES)) for each in answer.claims]
        try:
            store.jobs.retry(dice.choice(jobs))
        except StoreError:
            raise
        except RotaError:
            pass
    store.orchestrators.leave(id)


def test_nobody_waits_in_a_circle() -> None:
    with shared().database() as url, store_at(url) as store:  # of its own, because the server counts per database
        jobs = add_many(store, JOBS, max_attempts=1000)
        store.queues.set("default", breaker=100_000)
        ((before,),) = rows(store, DEADLOCKS)
        started, failed = Barrier(HANDS + CREWS), list[BaseException]()

        def run(number: int) -> None:
            with again(store) as own:
                started.wait()
                try:
                    (by_hand if number < HANDS else as_crew)(own, random.Random(number), jobs)
                except BaseException as problem:
                    failed.append(problem)

        threads = [Thread(target=run, args=(number,)) for number in range(HANDS + CREWS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        assert failed == [] and not any(thread.is_alive() for thread in threads)
        assert rows(store, DEADLOCKS) == [(before,)], "somebody waited in a circle"
        kept = {(queue, state): n for queue, state, n in store.database.execute("tally.all", {}) if n}
        assert kept == {(queue, state): n for queue, state, n in store.database.execute("tally.true", {})}
        assert replayed(store) == dict(rows(store, "SELECT id, status FROM job"))


def replayed(store: Store) -> dict[int, str | None]:
    """The state of every job as the log tells it, each move starting where the last one ended."""
    states: dict[int, str | None] = {}
    for event in store.events.after("0", 1_000_000):
        for move in event.of(JobMoved):
            for id in move.ids:
                assert states.get(id) == move.old, f"job {id} was {states.get(id)}, and {move} follows"
                states[id] = move.new
    return states
