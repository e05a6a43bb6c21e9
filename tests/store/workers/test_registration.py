"""Workers that nobody can see: they register, beat, fall silent, die, come back and leave."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from rota.core.claim import Done
from rota.core.errors import BadInput, NotFound, Stale, UnknownWorker
from rota.core.event import to_stored
from rota.core.job import ACTIVE, FAILED, READY
from rota.core.times import HOUR, MINUTE, SECOND
from tests.support.stores import rows
from tests.support.work import add, claim, fail, last_event, register, status

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock

EVERY = 30 * SECOND


def test_a_registered_worker_is_idle_and_listed(store: Store, clock: FakeClock) -> None:
    worker = store.workers.register("my-worker", pid=77, queue="tag")
    assert re.fullmatch("worker-[a-z0-9]{8}", worker.id)
    assert (worker.name, worker.pid, worker.queue, worker.status) == ("my-worker", 77, "tag", "idle")
    assert (worker.registered_at, worker.last_heartbeat_at, worker.heartbeat_interval) == (
        clock.now(),
        clock.now(),
        EVERY,
    )
    assert store.workers.list() == [worker]


@pytest.mark.parametrize("fields", [{"every": SECOND // 10 - 1}, {"every": 0}, {"queue": "a b"}], ids=repr)
def test_a_worker_that_makes_no_sense_is_refused(store: Store, fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        register(store, **fields)
    with pytest.raises(BadInput, match="a worker needs a name"):
        register(store, " ")
    assert store.workers.list(gone_too=True) == []


def test_a_beat_is_counted_and_keeps_what_it_brings(store: Store, clock: FakeClock) -> None:
    worker = register(store)
    clock.advance(SECOND)
    assert store.workers.heartbeat(worker, {"cpu": 12.5, "memory": 300}) == "continue"
    store.workers.heartbeat(worker)
    beaten = store.workers.get(worker)
    assert (beaten.heartbeat_count, beaten.last_heartbeat_at) == (2, clock.now())
    assert beaten.metadata == {"cpu": 12.5, "memory": 300}
    with pytest.raises(BadInput):
        store.workers.heartbeat(worker, {"cpu": float("nan")})


def test_the_answer_to_a_beat_says_what_to_do(store: Store) -> None:
    anyone, tagger = register(store), register(store, queue="tag")
    add(store), add(store, queue="tag")
    store.queues.pause("tag")
    assert (store.workers.heartbeat(anyone), store.workers.heartbeat(tagger)) == ("continue", "pause")
    store.queues.pause()
    assert store.workers.heartbeat(anyone) == "pause"
    store.queues.resume()
    assert store.workers.heartbeat(tagger) == "continue"
    store.workers.stop(tagger)
    assert store.workers.heartbeat(tagger) == "stop"
    with pytest.raises(UnknownWorker, match="worker worker-zzzzzzzz is not registered"):
        store.workers.heartbeat("worker-zzzzzzzz")


def test_on_an_empty_store_a_beat_says_go_on(store: Store) -> None:
    assert store.workers.heartbeat(register(store)) == "continue"


def test_two_missed_beats_make_it_dead_and_not_a_moment_before(store: Store, clock: FakeClock) -> None:
    worker = register(store)
    clock.advance(2 * EVERY - 1)
    store.tick()
    assert store.workers.get(worker).status == "idle"
    clock.advance(1)
    store.tick()
    assert store.workers.get(worker).status == "dead" and store.workers.list() == []
    certificate = store.workers.certificate(worker)
    assert certificate is not None
    assert (certificate.reason, certificate.died_at, certificate.job) == ("heartbeat_timeout", clock.now(), None)


@pytest.mark.parametrize("sign", ["heartbeat", "claim", "renew", "release"])
def test_every_claim_renewal_release_and_heartbeat_is_a_beat(store: Store, clock: FakeClock, sign: str) -> None:
    worker, job = register(store), add(store)
    held = None if sign == "claim" else claim(store, job, worker, HOUR)
    clock.advance(59 * SECOND)
    if sign == "heartbeat":
        store.workers.heartbeat(worker)
    elif held is None:
        claim(store, job, worker)
    elif sign == "renew":
        store.claims.renew(held)
    else:
        store.claims.release(held)
    assert store.workers.get(worker).last_heartbeat_at == clock.now()
    clock.advance(59 * SECOND)
    store.tick()
    assert store.workers.get(worker).status != "dead"


def test_a_worker_that_beat_since_it_claimed_dies_of_two_missed_beats_and_loses_its_jobs(
    store: Store, clock: FakeClock
) -> None:
    worker, jobs = register(store), [add(store), add(store)]
    held = [claim(store, job, worker, HOUR) for job in jobs]
    clock.advance(SECOND)
    store.workers.heartbeat(worker)
    clock.advance(2 * EVERY)
    before = last_event(store)
    store.tick()
    (event,) = store.events.after(before)
    assert [to_stored(fact)[1] for fact in event.facts] == ["die", "die", "die"], (
        "marked dead and released in one transaction"
    )
    assert [status(store, job) for job in jobs] == [READY, READY]
    assert [store.jobs.get(job).attempts for job in jobs] == [1, 1]
    certificate = store.workers.certificate(worker)
    assert certificate is not None and certificate.job == jobs[0]
    with pytest.raises(Stale):
        store.claims.settle(held[0], Done())


def test_a_loop_that_is_silent_since_it_claimed_is_judged_by_its_lease_alone(store: Store, clock: FakeClock) -> None:
    worker, job = register(store), add(store)
    claim(store, job, worker, HOUR)
    clock.advance(HOUR - 1)
    store.tick()
    assert (status(store, job), store.workers.get(worker).status) == (ACTIVE, "busy")
    clock.advance(1)
    store.tick()
    assert (status(store, job), store.workers.get(worker).status) == (READY, "dead")


def test_a_silent_loop_that_beats_again_is_judged_by_its_beats_from_then_on(store: Store, clock: FakeClock) -> None:
    worker, job = register(store), add(store)
    claim(store, job, worker, HOUR)
    clock.advance(5 * MINUTE)
    store.tick()
    store.workers.heartbeat(worker)
    clock.advance(2 * EVERY)
    store.tick()
    assert (status(store, job), store.workers.get(worker).status) == (READY, "dead")


def test_a_silent_loop_that_settled_is_judged_by_its_beats_from_then_on(store: Store, clock: FakeClock) -> None:
    worker, job = register(store), add(store)
    held = claim(store, job, worker, HOUR)
    clock.advance(5 * MINUTE)
    store.tick()
    store.claims.settle(held, Done())
    clock.advance(2 * EVERY - 1)
    store.tick()
    assert store.workers.get(worker).status == "idle"
    clock.advance(1)
    store.tick()
    assert store.workers.get(worker).status == "dead"


@pytest.mark.parametrize("sign", ["heartbeat", "claim"])
def test_a_dead_worker_that_speaks_is_alive_and_holds_nothing(store: Store, clock: FakeClock, sign: str) -> None:
    worker, job = register(store), add(store)
    held = claim(store, job, worker, MINUTE)
    clock.advance(HOUR)
    store.tick()
    assert store.workers.get(worker).status == "dead"
    if sign == "heartbeat":
        assert store.workers.heartbeat(worker) == "continue"
        assert store.workers.held(worker) == [] and store.workers.get(worker).status == "idle"
    else:
        assert claim(store, add(store), worker).worker_id == worker
        assert store.workers.get(worker).status == "busy"
    with pytest.raises(Stale):
        store.claims.settle(held, Done())
    clock.advance(2 * HOUR)
    store.tick()
    assert store.workers.get(worker).status == "dead", "it can die a second time"


def test_the_beat_of_an_overdue_worker_saves_it_before_anyone_judges(store: Store, clock: FakeClock) -> None:
    worker = register(store)
    clock.advance(HOUR)
    store.workers.heartbeat(worker)
    assert store.workers.certificate(worker) is None
    late = register(store)
    clock.advance(HOUR)
    job = add(store)
    claim(store, job, late)
    assert status(store, job) == ACTIVE and store.workers.get(late).status == "busy"


def test_three_deaths_quarantine_a_job(store: Store, clock: FakeClock) -> None:
    job = add(store, max_attempts=9)
    for _ in range(3):
        worker = register(store)
        claim(store, job, worker, HOUR)
        clock.advance(1)
        store.workers.heartbeat(worker)
        clock.advance(2 * EVERY)
        store.tick()
    found = store.jobs.get(job)
    assert (found.status, found.deaths) == (FAILED, 3) and str(found.error).startswith("quarantined")
    assert "is quarantined: cost 3 workers" in store.jobs.why(job)


def test_a_quarantined_job_that_is_retried_may_cost_as_many_workers_as_before(store: Store, clock: FakeClock) -> None:
    job = add(store, max_attempts=9)
    for found in (READY, READY, FAILED, READY, READY, FAILED):
        if status(store, job) == FAILED:
            store.jobs.retry(job)
        worker = register(store)
        claim(store, job, worker, HOUR)
        clock.advance(1)
        store.workers.heartbeat(worker)
        clock.advance(2 * EVERY)
        store.tick()
        assert status(store, job) == found


def test_deregistering_gives_back_what_is_held_and_keeps_the_history(store: Store) -> None:
    worker, jobs = register(store), [add(store, max_attempts=1), add(store)]
    held = [claim(store, job, worker) for job in jobs]
    assert store.workers.deregister(worker) == 2
    assert [(status(store, job), store.jobs.get(job).attempts) for job in jobs] == [(READY, 0), (READY, 0)]
    assert store.workers.get(worker).status == "stopped" and store.workers.list() == []
    assert [run.reason for run in store.claims.runs(jobs[0])] == ["deregistered"]
    with pytest.raises(Stale):
        store.claims.settle(held[0], Done())
    assert store.workers.deregister(worker) == 0, "a second time is no error"
    for speak in (lambda: store.workers.heartbeat(worker), lambda: claim(store, jobs[0], worker)):
        with pytest.raises(UnknownWorker, match="register again"):
            speak()
    with pytest.raises(UnknownWorker):
        store.workers.deregister("worker-zzzzzzzz")


def test_a_late_worker_is_shown_late_and_an_idle_one_of_a_paused_queue_paused(store: Store, clock: FakeClock) -> None:
    worker = register(store, queue="tag")
    add(store, queue="tag")
    store.queues.pause("tag")
    assert store.workers.shown(store.workers.get(worker)) == "paused"
    clock.advance(EVERY + EVERY // 2)
    assert store.workers.shown(store.workers.get(worker)) == "late"


def test_what_a_worker_holds_and_does_is_mirrored_in_its_row(store: Store) -> None:
    worker, first, second = register(store), add(store), add(store)
    held = [claim(store, first, worker), claim(store, second, worker)]
    assert (store.workers.get(worker).status, store.workers.get(worker).current_job) == ("busy", second)
    assert [job.id for job in store.workers.held(worker)] == [first, second]
    store.claims.settle(held[1], Done())
    assert (store.workers.get(worker).status, store.workers.get(worker).current_job) == ("busy", first)
    store.claims.release(held[0])
    assert (store.workers.get(worker).status, store.workers.get(worker).current_job) == ("idle", None)


def test_stop_is_asked_of_the_living_alone(store: Store) -> None:
    worker = register(store)
    assert store.workers.stop(worker).desired == "stop"
    with pytest.raises(NotFound, match="there is no living worker worker-zzzzzzzz"):
        store.workers.stop("worker-zzzzzzzz")
    with pytest.raises(NotFound, match="there is no worker worker-zzzzzzzz"):
        store.workers.get("worker-zzzzzzzz")


def test_gone_workers_are_listed_on_demand(store: Store) -> None:
    gone, here = register(store), register(store)
    store.workers.deregister(gone)
    assert {worker.id for worker in store.workers.list(gone_too=True)} == {gone, here}


def test_judging_is_bounded_and_the_next_look_goes_on(store: Store, clock: FakeClock) -> None:
    for _ in range(300):
        register(store)
    clock.advance(2 * EVERY)
    store.tick()
    assert rows(store, "SELECT count(*) FROM worker WHERE status = 'dead'") == [(256,)]
    store.tick()
    assert store.workers.list() == []


def test_a_failure_of_the_past_stays_in_the_workers_row(store: Store) -> None:
    job = add(store)
    fail(store, job, "it broke")
    assert store.workers.get(store.workers.implicit_id()).last_error_message == "it broke"


def test_a_person_who_deregistered_can_claim_again(store: Store) -> None:
    first, second = add(store), add(store)
    me = claim(store, first).worker_id
    store.workers.deregister(me)
    assert store.workers.get(me).status == "stopped"
    assert claim(store, second).worker_id == me
    assert (status(store, first), status(store, second)) == (READY, ACTIVE)
