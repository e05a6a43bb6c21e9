"""What a crew asks of the store beyond the exchange: orphans, take-over, reports, wishes and ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rota import documents
from rota.core.claim import Done, Failed
from rota.core.death import OPERATOR, STARTUP_TIMEOUT
from rota.core.errors import Stale
from rota.core.event import SlotChanged, WorkerChanged, to_stored
from rota.core.job import ACTIVE, DONE, FAILED, READY, SCHEDULED
from rota.core.orchestrator import LEASE
from rota.core.slot import GiveUp, Restart, RestartPolicy
from rota.core.times import MINUTE, SECOND
from rota.core.worker import END
from rota.process.host import host_id
from rota.store.claims.exchange import Idle, Report
from rota.store.jobs.enqueue import NewJob
from rota.store.maintenance.reconcile import Reconciled
from rota.store.workers.crews import Home, Process
from rota.store.workers.death import Death
from tests.support.work import add, add_many, register, status

if TYPE_CHECKING:
    from rota.core.frames.assignment import Assignment
    from rota.store.store import Store
    from tests.support.clock import FakeClock

NAME = "worker:tag:0"
NOTHING = Reconciled(0, 0, 0, 0, 0)


class Manned:
    """An orchestrator of crew main with one slot, whose worker has a process."""

    def __init__(self, store: Store, queue: str = "tag") -> None:
        self.store = store
        self.id = store.orchestrators.join()
        (self.slot,) = store.slots.take("main", host_id(), {queue: 1})
        self.process = Process(store.new_worker_id(), 4711, 12345, self.slot.name)
        self.worker = store.orchestrators.register_worker(self.id, self.slot.name, queue, self.process)
        store.orchestrators.came_up(self.worker, self.slot.name)

    def claim(self, room: int = 1) -> list[Assignment]:
        idle = [Idle(self.worker, self.slot.queue, room)]
        return self.store.orchestrators.exchange(self.id, self.number(), Report(idle=idle)).claims

    def number(self) -> int:
        return self.store.orchestrators.number(self.id)

    def stands(self) -> tuple[str, str | None, str | None]:
        (slot,) = self.store.slots.of_crew("main", host_id())
        return slot.status, slot.worker, slot.health


def death(crew: Manned, **facts: object) -> Death:
    return Death(crew.worker, crew.slot.name, "signaled", "signal 9", None, 9).replace(**facts)


def test_an_orphan_keeps_the_job_in_hand_and_gives_back_what_it_had_not_started(store: Store, clock: FakeClock) -> None:
    first, second, third = add_many(store, 3, queue="tag")
    crew = Manned(store)
    done, in_hand, unstarted = crew.claim(room=3)
    assert store.orphans.begin(
        crew.worker, [in_hand.token], [(first, done.token, Done('"r"'))], [(second, in_hand.token, '{"at": 7}')]
    )
    assert (status(store, first), status(store, second), status(store, third)) == (DONE, ACTIVE, READY)
    assert store.claims.runs(third) == [] and store.jobs.get(unstarted.job_id).attempts == 0
    assert store.workers.get(crew.worker).orchestrator is None
    for _ in range(4):
        clock.advance(LEASE // 2)
        assert store.orphans.renew(crew.worker, [(second, in_hand.token)])
        store.tick()
    assert status(store, second) == ACTIVE, "it hangs on its own lease"
    store.orphans.keep_checkpoint(crew.worker, (second, in_hand.token, '{"at": 9}'))
    store.orphans.settle(crew.worker, (second, in_hand.token, Failed("broken")))
    assert status(store, second) == SCHEDULED
    store.orphans.end(death(crew, asked=True))
    assert crew.stands() == ("empty", None, None) and store.workers.get(crew.worker).status == "stopped"
    clock.advance(MINUTE)
    store.tick()
    assert store.reconcile() == NOTHING


def test_an_orphan_renews_no_claim_that_another_has_by_now(store: Store, clock: FakeClock) -> None:
    job = add(store, queue="tag")
    crew = Manned(store)
    (lost,) = crew.claim()
    assert store.orphans.begin(crew.worker, [lost.token], []) == {lost.token}
    store.jobs.cancel(job)
    store.jobs.retry(job)
    taken = store.claims.claim(job, register(store), SECOND)
    assert store.orphans.renew(crew.worker, [(job, lost.token)]) == frozenset()
    assert store.jobs.get(job).lease_expires_at == taken.lease_expires_at


def test_an_orphan_that_dies_spends_the_job_in_hand(store: Store) -> None:
    job = add(store, queue="tag")
    crew = Manned(store)
    (held,) = crew.claim()
    assert store.orphans.begin(crew.worker, [held.token], [])
    store.orphans.end(death(crew))
    assert status(store, job) == READY and store.jobs.get(job).attempts == 1
    certificate = store.workers.certificate(crew.worker)
    assert certificate is not None and certificate.signal == 9
    assert not store.orphans.begin(crew.worker, [held.token], []), "a dead worker goes on with nothing"
    assert not store.orphans.renew(crew.worker, [(job, held.token)])


def test_an_orphan_that_was_ended_on_purpose_costs_its_job_nothing(store: Store) -> None:
    job = add(store, queue="tag")
    crew = Manned(store)
    (held,) = crew.claim()
    store.orphans.begin(crew.worker, [held.token], [])
    store.orchestrators.end_orphan(crew.worker)
    assert store.workers.get(crew.worker).desired == END
    store.orphans.end(death(crew))
    assert status(store, job) == READY and store.jobs.get(job).attempts == 0


@pytest.mark.parametrize("alive", [True, False])
def test_a_new_orchestrator_takes_over_those_that_live_and_buries_the_rest(store: Store, alive: bool) -> None:
    job = add(store, queue="tag")
    crew = Manned(store)
    crew.claim()
    newer = store.orchestrators.join()
    found = store.orchestrators.take_over(newer, "main", lambda process: alive)
    assert found == ([crew.process] if alive else []) == store.orchestrators.orphans("main")
    assert status(store, job) == (ACTIVE if alive else READY)
    assert [each.id for each in store.orchestrators.live()] == [newer]
    with pytest.raises(Stale):
        store.orchestrators.renew(crew.id)


def test_a_takeover_leaves_the_orchestrator_of_another_host_its_workers_and_their_jobs(store: Store) -> None:
    job = add(store, queue="tag")
    far = store.orchestrators.join("main", Home("far/1", "far", 4242, None))
    worker = store.orchestrators.register_worker(far, "worker:tag:0", "tag")
    assert store.orchestrators.exchange(far, 0, Report(idle=[Idle(worker, "tag")])).claims
    here = store.orchestrators.join()
    assert store.orchestrators.take_over(here, "main", lambda process: False) == []
    assert [each.id for each in store.orchestrators.live()] == [far, here]
    assert (status(store, job), store.workers.get(worker).status) == (ACTIVE, "busy")


def test_a_slot_whose_worker_died_before_it_was_written_up_stays_as_its_death_left_it(store: Store) -> None:
    """A death overtakes what is less urgent; what comes after it is late, not news."""
    crew = Manned(store)
    store.orchestrators.record_death(death(crew), Report(), RestartPolicy(most_in_window=0))
    last = store.events.last()
    store.orchestrators.came_up(crew.worker, crew.slot.name)
    store.orchestrators.mirror([], [("late", crew.slot.name)])
    assert crew.stands() == ("failed", None, None)
    assert store.workers.get(crew.worker).status == "dead"
    assert not [fact for event in store.events.after(last) for fact in event.of(SlotChanged, "move")]


def test_a_worker_that_is_ready_ends_the_row_of_starts_that_were_not(store: Store) -> None:
    crew = Manned(store)

    def start(is_ready: bool) -> Restart | GiveUp:
        """Decide after the slot's next worker ran out of time, or was ready and then killed by a person."""
        process = Process(store.new_worker_id(), 4711, 12345, NAME)
        worker = store.orchestrators.register_worker(crew.id, NAME, "tag", process)
        if is_ready:
            store.orchestrators.came_up(worker, NAME)
        reason = OPERATOR if is_ready else STARTUP_TIMEOUT
        loose = RestartPolicy(most_in_window=100, most_in_lifetime=100)
        return store.orchestrators.record_death(Death(worker, NAME, reason, "signal 9", None, 9), Report(), loose)

    store.orchestrators.record_death(death(crew, asked=True), Report(), RestartPolicy())
    assert all(isinstance(start(is_ready=False), Restart) for _ in range(4))
    assert start(is_ready=True) == Restart(0)
    assert all(isinstance(start(is_ready=False), Restart) for _ in range(4))
    assert start(is_ready=False) == GiveUp("was not ready in time, 5 starts in a row")


def test_readers_see_what_workers_report_and_how_they_are(store: Store) -> None:
    crew = Manned(store)
    assert crew.stands() == ("up", crew.worker, "healthy")
    store.orchestrators.mirror([('{"cpu": 3}', crew.worker)], [("late", crew.slot.name)])
    assert crew.stands() == ("up", crew.worker, "late")
    store.orchestrators.mirror([(None, crew.worker)], [(None, crew.slot.name)])
    assert crew.stands() == ("up", crew.worker, None)
    last = store.events.last()
    store.orchestrators.note([WorkerChanged("leak", crew.worker, {"pid": 5})])
    assert [to_stored(fact)[1] for event in store.events.after(last) for fact in event.facts] == ["leak"]


def test_wishes_are_numbered_and_name_what_they_touch(store: Store) -> None:
    add(store, queue="tag")
    crew = Manned(store)
    (held,) = crew.claim()
    before = store.orchestrators.last_directive()
    store.queues.pause("tag")
    store.workers.stop(crew.worker)
    (asked,) = store.orchestrators.drain("main", host_id())
    directive = store.orchestrators.directive(crew.id, "main", before)
    assert directive is not None and directive.number > before and asked.id == crew.id
    assert (directive.held, directive.to_stop) == (frozenset([held.token]), frozenset([crew.worker]))
    assert (directive.paused, directive.desired) == (frozenset(["tag"]), "drain")
    assert store.orchestrators.directive(crew.id, "main", directive.number) is None
    store.orchestrators.reconciled(crew.id)
    assert store.orchestrators.live()[0].last_reconcile_at is not None


def test_a_death_takes_the_last_report_along_and_charges_its_slot(store: Store) -> None:
    first, second = add_many(store, 2, queue="tag")
    crew = Manned(store)
    done, in_hand = crew.claim(room=2)
    last = Report([(first, done.token, Done())], checkpoints=[('{"at": 1}', second, in_hand.token)])
    decision = store.orchestrators.record_death(death(crew), last, store.settings.restarts)
    assert isinstance(decision, Restart) and decision.after and crew.stands()[0] == "backoff"
    assert (status(store, first), status(store, second)) == (DONE, READY)
    assert store.workers.get(crew.worker).success_count == 1
    fresh = store.orchestrators.register_worker(crew.id, crew.slot.name, "tag")
    (again,) = store.orchestrators.exchange(crew.id, crew.number(), Report(idle=[Idle(fresh, "tag")])).claims
    assert again.checkpoint_text == '{"at": 1}' and [run.verb for run in again.previous_runs] == ["die"]


def test_a_slots_restarts_are_shown_until_they_no_longer_count(store: Store, clock: FakeClock) -> None:
    crew, policy = Manned(store), store.settings.restarts
    store.orchestrators.record_death(death(crew), Report(), policy)

    def shown() -> tuple[int, int]:
        document = documents.slot(store.slots.all()[0], store.now(), {}, policy)
        return document["restarts"], document["lifetime_restarts"]

    assert shown() == (1, 1)
    clock.advance(policy.window)
    assert shown() == (0, 1)


def test_a_worker_that_was_asked_to_leave_is_shown_as_stopping_until_it_has_left(store: Store) -> None:
    crew = Manned(store)
    store.orchestrators.mirror([], [("stopping", crew.slot.name)])
    assert crew.stands()[:2] == ("stopping", crew.worker)
    assert store.workers.get(crew.worker).status == "stopping"
    store.orchestrators.record_death(death(crew, asked=True), Report(), store.settings.restarts)
    store.orchestrators.mirror([], [("stopping", crew.slot.name)])
    assert crew.stands()[:2] == ("empty", None)


def test_a_worker_is_hired_once_however_often_that_is_asked(store: Store) -> None:
    crew = Manned(store)
    assert store.orchestrators.register_worker(crew.id, crew.slot.name, "tag", crew.process) == crew.worker
    assert crew.stands() == ("up", crew.worker, "healthy") and len(store.workers.list()) == 1


def test_who_leaves_empties_its_slots(store: Store) -> None:
    job = add(store, queue="tag")
    crew = Manned(store)
    crew.claim()
    store.orchestrators.leave(crew.id)
    assert crew.stands() == ("empty", None, None) and status(store, job) == READY


def test_a_slot_that_failed_is_still_shown_as_failed_when_its_orchestrator_has_left(store: Store) -> None:
    crew = Manned(store)
    store.orchestrators.record_death(death(crew), Report(), RestartPolicy(most_in_window=0))
    store.orchestrators.leave(crew.id)
    assert crew.stands() == ("failed", None, None)


def test_the_pool_default_serves_every_queue_without_a_pool_in_turn(store: Store) -> None:
    for queue in ("a", "b", "tag"):
        add_many(store, 2, queue=queue)
    store.queues.set("b", concurrency=1)
    Manned(store)
    id = store.orchestrators.join("other")
    worker = store.orchestrators.register_worker(id, "worker:default:0", "default")
    answer = store.orchestrators.exchange(id, 0, Report(idle=[Idle(worker, "default", 4)], served="a"))
    assert sorted(claim.queue for claim in answer.claims) == ["a", "a", "b"]
    tokens = [claim.token for claim in answer.claims]
    assert tokens == sorted(set(tokens))


def test_the_next_thing_that_is_due_is_foreseen(store: Store, clock: FakeClock) -> None:
    assert store.next_due() is None
    store.jobs.add(NewJob("later", at=clock.wall() + 90 * SECOND))
    assert store.next_due() == 90 * SECOND
    register(store, every=10 * SECOND)
    assert (store.next_due() or 0) <= 20 * SECOND
    Manned(store)
    clock.advance(MINUTE * 2)
    assert store.next_due() == 0


def test_a_registered_process_on_this_host_is_known(store: Store) -> None:
    id = register(store, pid=os.getpid())
    (known,) = store.orchestrators.processes()
    assert (known.worker_id, known.pid) == (id, os.getpid())


def test_a_job_that_failed_for_good_while_orphaned_stays_so(store: Store) -> None:
    job = add(store, queue="tag", max_attempts=1)
    crew = Manned(store)
    (held,) = crew.claim()
    store.orphans.begin(crew.worker, [held.token], [])
    store.orphans.end(death(crew, asked=True), [(job, held.token, Failed("no"))])
    assert status(store, job) == FAILED
    store.orphans.settle(crew.worker, (job, held.token, Done()))
    assert status(store, job) == FAILED, "a claim that was lost changes nothing"
