"""The exchange: outcomes for claims in one transaction, dealt fairly, numbered, and never written when empty."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done, Failed, Released, Snoozed
from rota.core.errors import Conflict, NotFound, Stale, StoreError, UnknownWorker
from rota.core.event import JobMoved
from rota.core.frames.messages import Kinds
from rota.core.job import ACTIVE, DONE, FAILED, READY, SCHEDULED
from rota.core.times import MINUTE, SECOND
from rota.core.worker import Dead
from rota.orchestrator.dispatch import Holdings
from rota.process.host import host_id
from rota.store.claims.exchange import Idle, Report
from rota.store.sqlite.database import SqliteDatabase
from tests.support.clock import FakeClock
from tests.support.stores import everything, make_store, rows, watch_writes
from tests.support.work import Crew, add, add_many, claim, last_event, status, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rota.store.claims.exchange import Exchange
    from rota.store.store import Store


def test_it_settles_and_claims_in_one_transaction(store: Store) -> None:
    first, second = add_many(store, 2)
    crew = Crew(store)
    (handout,) = crew.exchange().claims
    before = last_event(store)
    answer = crew.exchange([(first, handout.token, Done('{"n":1}'))])
    (event,) = store.events.after(before)
    assert [move.verb for move in event.of(JobMoved)] == ["finish", "claim"]
    assert event.actor == f"orchestrator-{crew.id}"
    assert (answer.refused, answer.number, [each.job_id for each in answer.claims]) == ([], 2, [second])
    assert store.jobs.get(first).result == {"n": 1}


def test_a_handout_carries_what_the_handler_needs(store: Store) -> None:
    job = add(store, "tag it", kind="audio", payload={"a": 1}, timeout=MINUTE, max_attempts=4)
    crew = Crew(store)
    (handout,) = crew.exchange().claims
    assert (handout.job_id, handout.worker_id, handout.queue) == (job, crew.workers[0], "default")
    assert (handout.kind, handout.title, handout.payload_text) == ("audio", "tag it", '{"a":1}')
    assert (handout.attempt, handout.max_attempts, handout.timeout) == (1, 4, MINUTE)


def test_a_worker_gets_the_whole_job_of_the_kinds_that_it_names_and_of_no_other(store: Store) -> None:
    first = add(store, kind="audio")
    second = add(store, kind="audio", after=[first], payload={"n": 1})
    add(store, kind="video")
    crew = Crew(store)
    idle = [Idle(crew.workers[0], "default", 3, whole=Kinds(frozenset({"audio"})))]
    answer = store.orchestrators.exchange(crew.id, 0, Report([], idle))
    assert [claim.whole.kind if claim.whole else None for claim in answer.claims] == ["audio", None]
    done = [(claim.job_id, claim.token, Done()) for claim in answer.claims]
    (claim,) = store.orchestrators.exchange(crew.id, answer.number, Report(done, idle)).claims
    assert claim.whole == store.jobs.get(second) and claim.whole.after == (first,)


def test_a_watched_claim_has_no_lease_of_its_own(store: Store) -> None:
    job, crew = add(store), Crew(store)
    (handout,) = crew.exchange().claims
    found = store.jobs.get(job)
    assert (found.status, found.token, found.orchestrator, found.lease_expires_at) == (
        ACTIVE,
        handout.token,
        crew.id,
        None,
    )


def test_jobs_are_dealt_one_to_each_in_turn_in_token_order(store: Store) -> None:
    ids = add_many(store, 7)
    crew = Crew(store, 3)
    claims = crew.exchange(room=3).claims
    one, two, three = crew.workers
    assert [each.worker_id for each in claims] == [one, two, three, one, two, three, one]
    assert [each.job_id for each in claims] == ids
    tokens = [each.token for each in claims]
    assert tokens == sorted(set(tokens))


def test_each_workers_row_shows_its_own_job_and_its_own_successes(store: Store) -> None:
    add_many(store, 5)
    crew = Crew(store, 3)
    first = crew.exchange().claims
    shown = [store.workers.get(worker).current_job for worker in crew.workers]
    assert shown == [each.job_id for each in first]
    crew.exchange([(each.job_id, each.token, Done()) for each in first[:2]])
    assert [store.workers.get(worker).success_count for worker in crew.workers] == [1, 1, 0]


def test_rooms_of_different_size_are_filled_and_not_more(store: Store) -> None:
    add_many(store, 9)
    crew = Crew(store, 3)
    one, two, three = crew.workers
    idle = [Idle(one, "default", 1), Idle(two, "default", 3), Idle(three, "default", 0)]
    answer = store.orchestrators.exchange(crew.id, 0, Report([], idle))
    assert [each.worker_id for each in answer.claims] == [one, two, two, two]


def test_each_worker_gets_jobs_of_its_own_queue_alone(store: Store) -> None:
    tag = add(store, queue="tag")
    add(store, queue="other")
    assert [each.job_id for each in Crew(store, 2, "tag").exchange(room=5).claims] == [tag]


def test_every_outcome_can_be_reported(store: Store, clock: FakeClock) -> None:
    ids = add_many(store, 5, max_attempts=2)
    crew = Crew(store)
    claims = crew.exchange(room=5).claims
    outcomes = [Done(), Failed("x"), Failed("x", again=False), Snoozed(MINUTE), Released("n")]
    reports = [(each.job_id, each.token, outcome) for each, outcome in zip(claims, outcomes, strict=True)]
    assert crew.exchange(reports, room=0).refused == []
    assert [status(store, id) for id in ids] == ["done", SCHEDULED, FAILED, SCHEDULED, READY]
    assert [store.jobs.get(id).attempts for id in ids] == [1, 1, 1, 0, 0]
    worker = store.workers.get(crew.workers[0])
    assert (worker.success_count, worker.error_count, worker.status) == (1, 2, "idle")


def test_settling_many_done_jobs_takes_as_many_statements_as_settling_a_few(tmp_path: Path) -> None:
    with make_store("sqlite", tmp_path, FakeClock()) as store:
        crew = Crew(store)
        add_many(store, 60)
        asked, counts = list[str](), list[int]()
        assert isinstance(store.database, SqliteDatabase)
        store.database._connection.exec_trace = lambda _, text, __: not asked.append(text)  # type: ignore[func-returns-value]
        for many in (2, 50):
            done = [(claim.job_id, claim.token, Done()) for claim in crew.exchange(room=many).claims]
            asked.clear()
            assert crew.exchange(done, room=0).refused == []
            counts.append(len(asked))
    assert counts[0] == counts[1]


def test_a_stale_outcome_is_named_and_the_others_stand(store: Store) -> None:
    first, second = add_many(store, 2)
    crew = Crew(store)
    claims = crew.exchange(room=2).claims
    store.jobs.cancel(first)
    reports = [(each.job_id, each.token, Done()) for each in claims]
    assert crew.exchange(reports, room=0).refused == [claims[0].token]
    assert (status(store, first), status(store, second)) == ("cancelled", "done")


@pytest.mark.parametrize("outcome", [Done(), Failed("x"), Released()], ids=repr)
def test_a_wrong_token_or_job_is_refused_and_changes_nothing(store: Store, outcome: Done | Failed | Released) -> None:
    job = add(store)
    held, crew = claim(store, job), Crew(store)
    answer = crew.exchange([(job, held.token + 1, outcome), (99, held.token, outcome)], room=0)
    assert answer.refused == [held.token + 1, held.token]
    assert status(store, job) == ACTIVE and store.claims.runs(job) == []


def test_the_same_outcome_twice_in_one_report_settles_once(store: Store) -> None:
    job, crew = add(store), Crew(store)
    (handout,) = crew.exchange().claims
    assert crew.exchange([(job, handout.token, Done())] * 2, room=0).refused == []
    assert len(store.claims.runs(job)) == 1 and store.workers.get(crew.workers[0]).success_count == 1


def test_a_late_exchange_is_refused_and_changes_nothing(store: Store) -> None:
    job, crew = add(store), Crew(store)
    (handout,) = crew.exchange().claims
    before = told(store)
    with pytest.raises(Stale, match="exchange 1 of orchestrator 1 came late"):
        crew.exchange([(job, handout.token, Done())], late=1)
    assert told(store) == before and status(store, job) == ACTIVE


def test_after_a_lost_answer_nothing_stays_claimed_that_nobody_knows_of(store: Store) -> None:
    known, unknown = add_many(store, 2, max_attempts=1)
    crew = Crew(store)
    (first,) = crew.exchange().claims
    crew.exchange()
    answer = crew.exchange(room=0, holdings=[first.token])
    assert answer.refused == []
    assert (status(store, known), status(store, unknown)) == (ACTIVE, READY)
    assert store.jobs.get(unknown).attempts == 0, "given back unspent"


def test_many_that_nobody_knows_of_go_back_together_without_a_trace(store: Store) -> None:
    plain, limited = add_many(store, 20), [add(store, limit_key="k") for _ in range(2)]
    crew = Crew(store)
    assert len(crew.exchange(room=30).claims) == 22
    crew.exchange(room=0, holdings=[])
    for id in (*plain, *limited):
        assert (status(store, id), store.jobs.get(id).attempts, store.claims.runs(id)) == (READY, 0, [])
    worker = store.workers.get(crew.workers[0])
    assert (worker.status, worker.current_job) == ("idle", None)
    kept = {(queue, state): n for queue, state, n in store.database.execute("tally.all", {}) if n}
    assert kept == {("default", READY): 22}


def test_holdings_release_only_what_hangs_on_this_orchestrator(store: Store) -> None:
    add_many(store, 3)
    by_hand = store.claims.take()
    one, other = Crew(store), Crew(store)
    (mine,), (theirs,) = one.exchange().claims, other.exchange().claims
    one.exchange(room=0, holdings=[])
    assert [status(store, each) for each in (by_hand.job_id, mine.job_id, theirs.job_id)] == [ACTIVE, READY, ACTIVE]


@pytest.mark.parametrize("there", ["nothing", "another queue", "paused", "nobody idle"])
def test_an_empty_exchange_writes_nothing(store: Store, there: str) -> None:
    crew = Crew(store, 2, "tag")
    if there == "another queue":
        add(store, queue="other")
    elif there != "nothing":
        add(store, queue="tag")
    if there == "paused":
        store.queues.pause()
    was_written = watch_writes(store)
    answer = crew.exchange(room=0 if there == "nobody idle" else 5)
    assert (answer.claims, answer.refused, answer.number) == ([], [], 0)
    assert not was_written()
    crew.renew()
    assert was_written(), "the watch itself works"


def test_nobody_who_is_not_there_is_handed_a_job(store: Store) -> None:
    job, crew = add(store), Crew(store, 2)
    gone, here = crew.workers
    store.workers.deregister(gone)
    idle = [Idle(gone, "default"), Idle("worker-zzzzzzzz", "default"), Idle(here, "default")]
    answer = store.orchestrators.exchange(crew.id, 0, Report([], idle))
    assert [(each.job_id, each.worker_id) for each in answer.claims] == [(job, here)]


def test_an_exchange_that_settles_what_was_due_runs_no_tick_for_it(store: Store, clock: FakeClock) -> None:
    """PostgreSQL asks ahead whether anything is due; a tick in vain would use up the grace for a silent store."""
    job = add(store)
    held = claim(store, job, lease=10 * SECOND)
    crew = Crew(store)
    clock.advance(10 * SECOND)
    (before,) = rows(store, "SELECT graced, grace_from FROM pulse")
    assert crew.exchange([(job, held.token, Done())], room=0).refused == []
    assert rows(store, "SELECT graced, grace_from FROM pulse") == [before]


def test_a_watched_workers_death_spends_only_the_job_in_hand(store: Store, clock: FakeClock) -> None:
    ids = add_many(store, 3, max_attempts=2)
    crew = Crew(store)
    claims = crew.exchange(room=3).claims
    before = last_event(store)
    store.orchestrators.mark_dead(crew.workers[0], Dead("signaled", "signal 9"))
    assert len(store.events.after(before)) == 1, "certificate and release in one transaction"
    assert [(status(store, id), store.jobs.get(id).attempts) for id in ids] == [(READY, 1), (READY, 0), (READY, 0)]
    assert [len(store.claims.runs(id)) for id in ids] == [1, 0, 0]
    certificate = store.workers.certificate(crew.workers[0])
    assert certificate is not None
    assert (certificate.reason, certificate.text, certificate.job) == ("signaled", "signal 9", claims[0].job_id)


def test_leaving_gives_everything_back_unspent_and_stops_its_workers(store: Store) -> None:
    ids = add_many(store, 3, max_attempts=1)
    crew = Crew(store, 2)
    crew.exchange(room=2)
    store.orchestrators.leave(crew.id)
    assert [(status(store, id), store.jobs.get(id).attempts) for id in ids] == [(READY, 0)] * 3
    assert [store.workers.get(worker).status for worker in crew.workers] == ["stopped", "stopped"]
    for late in (crew.exchange, crew.renew):
        with pytest.raises(Stale):
            late()


def test_nobody_is_hired_by_an_orchestrator_that_is_not_there(store: Store) -> None:
    with pytest.raises(NotFound, match="there is no running orchestrator 9"):
        store.orchestrators.register_worker(9, "worker:default:0", "default")
    assert rows(store, "SELECT * FROM worker") == []


def test_reporting_an_outcome_again_is_no_refusal_and_changes_nothing(store: Store) -> None:
    job, crew = add(store), Crew(store)
    (handout,) = crew.exchange().claims
    outcome = (job, handout.token, Done("1"))
    assert crew.exchange([outcome]).refused == []
    before = last_event(store)
    assert crew.exchange([outcome]).refused == []
    assert crew.exchange([(job, handout.token, Failed("no"))]).refused == [handout.token]
    assert store.events.after(before) == []
    assert store.jobs.get(job).result == 1


def test_nobody_claims_for_a_watched_worker_and_no_beat_revives_it(store: Store) -> None:
    held, other = add_many(store, 2)
    crew = Crew(store)
    (worker,) = crew.workers
    crew.exchange()
    with pytest.raises(Conflict, match="is watched by an orchestrator"):
        claim(store, other, worker)
    before = everything(store)
    assert store.claims.renew(store.claims.held(held, worker)).lease_expires_at is None, "its orchestrator renews it"
    assert everything(store) == before
    store.orchestrators.mark_dead(worker, Dead("signaled", "killed"))
    with pytest.raises(UnknownWorker):
        store.workers.heartbeat(worker)
    assert store.workers.get(worker).status == "dead"


def test_the_pool_default_serves_every_queue_without_a_pool_in_turn(store: Store) -> None:
    for queue in ("a", "b", "tag"):
        add_many(store, 3, queue=queue)
    store.slots.take("main", host_id(), {"tag": 1})
    crew = Crew(store)
    served: list[str] = []
    for _ in range(7):
        last = served[-1] if served else ""
        report = Report([], [Idle(crew.workers[0], "default")], served=last)
        answer = store.orchestrators.exchange(crew.id, crew.number, report)
        crew.number = answer.number
        served += [claim.queue for claim in answer.claims]
    assert served == ["a", "b", "a", "b", "a", "b"], "a queue with a pool of its own is left to it"
    store.slots.scale("main", host_id(), "tag", 0)
    assert [claim.queue for claim in crew.exchange().claims] == ["tag"], "nobody has a pool for it any more"


def test_a_window_of_the_pool_default_is_shared_between_its_queues(store: Store) -> None:
    add_many(store, 8, queue="a")
    add_many(store, 2, queue="b")
    dealt = [claim.queue for claim in Crew(store).exchange(room=6).claims]
    assert sorted(dealt) == ["a"] * 4 + ["b"] * 2


@pytest.mark.parametrize("limit", [{"concurrency": 9}, {"per_key": 9}, {"fence": "end"}])
def test_a_queue_with_a_limit_is_handed_out_one_by_one(store: Store, limit: dict[str, object]) -> None:
    store.queues.set("tag", **limit)
    add_many(store, 5, queue="tag")
    crew = Crew(store, 2, "tag")
    first = crew.exchange(room=4).claims
    assert [claim.worker_id for claim in first] == crew.workers
    assert [claim.fenced for claim in first] == ["fence" in limit] * 2
    busy = [Idle(worker, "tag", 3, held=1) for worker in crew.workers]
    assert store.orchestrators.exchange(crew.id, crew.number, Report([], busy)).claims == []


def test_a_checkpoint_and_earlier_runs_reach_the_next_attempt(store: Store) -> None:
    job, crew = add(store), Crew(store)
    (first,) = crew.exchange().claims
    assert (first.checkpoint_text, first.previous_runs) == (None, ())
    stale, kept = ('{"n":9}', job, first.token - 1), ('{"n":4}', job, first.token)
    report = Report([(job, first.token, Failed("broke"))], checkpoints=[kept, stale])
    crew.number = store.orchestrators.exchange(crew.id, crew.number, report).number
    store.jobs.cancel(job)
    store.jobs.retry(job)
    (second,) = crew.exchange().claims
    assert second.checkpoint_text == '{"n":4}'
    assert [(run.status, run.error) for run in second.previous_runs] == [("failed", "broke")]


def test_an_orchestrator_that_lost_an_answer_brings_all_it_holds(store: Store) -> None:
    known, unknown = add_many(store, 2)
    crew = Crew(store)
    holdings = Holdings(crew.id)
    idle = [Idle(crew.workers[0], "default")]
    (first,) = holdings.exchange(store, [], idle, []).claims
    right, settled = store.orchestrators.exchange, [(known, first.token, Done())]

    class Deaf:
        """A store whose next exchange is committed, and its answer lost on the way."""

        orchestrators = store.orchestrators

        def __init__(self) -> None:
            self.orchestrators.exchange = self.lose  # type: ignore[method-assign]

        def lose(self, id: int, number: int, report: Report) -> Exchange:
            right(id, number, report)
            raise StoreError("the connection broke")

    with pytest.raises(StoreError):
        holdings.exchange(Deaf(), settled, idle, [])  # type: ignore[arg-type]
    assert status(store, unknown) == ACTIVE
    answer = holdings.exchange(store, settled, [], [])
    assert (answer.refused, status(store, known), status(store, unknown)) == ([], DONE, READY)
    assert store.jobs.get(unknown).attempts == 0


def test_an_exchange_whose_answer_is_late_may_come_before_the_question_how_far_the_store_is(store: Store) -> None:
    known, unknown = add_many(store, 2)
    crew = Crew(store)
    holdings = Holdings(crew.id)
    idle = [Idle(crew.workers[0], "default")]
    (first,) = holdings.exchange(store, [], idle, []).claims
    slow = _Slow(store)
    with pytest.raises(StoreError):
        holdings.exchange(slow, [], idle, [])  # type: ignore[arg-type]
    assert status(store, unknown) == READY, "it is still under way"

    answer = holdings.exchange(slow, [(known, first.token, Done())], [], [])  # type: ignore[arg-type]
    assert slow.orchestrators.under_way is None, "it came between the question and what was said then"
    assert (answer.refused, status(store, known), status(store, unknown)) == ([], DONE, READY)
    assert store.jobs.get(unknown).attempts == 0


def test_an_orchestrator_that_was_given_up_learns_it_after_a_lost_answer_too(store: Store) -> None:
    job = add(store)
    crew = Crew(store)
    holdings = Holdings(crew.id)
    idle = [Idle(crew.workers[0], "default")]
    slow = _Slow(store)
    with pytest.raises(StoreError):
        holdings.exchange(slow, [], idle, [])  # type: ignore[arg-type]
    store.orchestrators.leave(crew.id)
    with pytest.raises(Stale, match="given up"):
        holdings.exchange(slow, [], idle, [])  # type: ignore[arg-type]
    assert status(store, job) == READY


class _Slow:
    """A link that gives up waiting for the first exchange, which is carried out once the number was asked for."""

    def __init__(self, store: Store) -> None:
        self.orchestrators = self
        self.under_way: Callable[[], Exchange] | None = None
        self._right, self._waits = store.orchestrators, True

    def exchange(self, id: int, number: int, report: Report) -> Exchange:
        if not self._waits:
            return self._right.exchange(id, number, report)
        self._waits, self.under_way = False, lambda: self._right.exchange(id, number, report)
        raise StoreError("no answer within 10 s")

    def number(self, id: int) -> int:
        found = self._right.number(id)
        if self.under_way is not None:
            with contextlib.suppress(Stale):
                self.under_way()
            self.under_way = None
        return found
