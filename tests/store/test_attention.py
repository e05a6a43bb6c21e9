"""What needs a person's attention, on every store; and which workers died last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.claim import Done
from rota.core.orchestrator import LEASE
from rota.core.schedule import NewSchedule
from rota.core.slot import History, RestartPolicy
from rota.core.times import HOUR, MINUTE, SECOND
from rota.live.attention import MOST_ERRORS, Notice, notices
from rota.process.host import host_id
from rota.store.claims.exchange import Report
from rota.store.workers.death import Death
from rota.store.workers.slots import remember
from tests.support.stores import rows
from tests.support.work import Crew, add, add_many, claim, fail, register

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def test_a_store_where_all_is_well_needs_none(store: Store) -> None:
    store.slots.take("main", host_id(), {"default": 1})
    add(store)
    Crew(store).exchange()
    assert notices(store) == []


def test_a_slot_that_was_given_up_until_it_is_reset(store: Store) -> None:
    store.slots.take("main", host_id(), {"default": 2})
    with store.write() as tx:
        remember(tx, "worker:default:1", History(failed_at=store.now(), failure_reason="died 6 times in 5m"))
    found = notices(store)
    assert [(each.noun, each.which, each.text) for each in found] == [
        ("slot", "worker:default:1", "failed: it died 6 times in 5m")
    ]
    assert found[0].since == store.now()
    store.slots.reset("worker:default:1")
    assert notices(store) == []


def test_a_reset_of_a_slot_that_is_filled_clears_its_history_and_leaves_its_worker(store: Store) -> None:
    store.slots.take("main", host_id(), {"default": 1})
    crew = Crew(store)
    store.orchestrators.came_up(crew.workers[0], "worker:default:0")
    with store.write() as tx:
        remember(tx, "worker:default:0", History((store.now(),), 4))
    (before,) = store.slots.all()
    store.slots.reset("worker:default:0")
    assert store.slots.all() == [before.replace(history=History())]


def test_a_slot_that_nobody_wants_any_more_is_nobodys_trouble(store: Store) -> None:
    store.slots.take("main", host_id(), {"default": 2})
    with store.write() as tx:
        remember(tx, "worker:default:1", History(failed_at=store.now(), failure_reason="died"))
    store.slots.scale("main", host_id(), "default", 1)
    assert notices(store) == []


def test_a_queue_whose_breaker_is_open_but_none_that_a_person_paused(store: Store) -> None:
    store.queues.set("default", breaker=1)
    fail(store, add(store), "no route to host")
    add(store, queue="other")
    store.queues.pause("other")
    (found,) = notices(store)
    assert (found.noun, found.which) == ("queue", "default") and "no route to host" in found.text


def test_a_schedule_whose_last_time_brought_no_job_or_one_that_failed(store: Store, clock: FakeClock) -> None:
    store.schedules.add(NewSchedule("report", "0 * * * *", queue="night", max_attempts=1))
    first = store.schedules.run("report").id
    assert notices(store) == []
    store.queues.set("night", max_depth=1)
    clock.advance(HOUR)
    store.tick()
    (refused,) = notices(store)
    assert (refused.noun, refused.which) == ("schedule", "report") and "is full" in refused.text
    fail(store, first, "no ink")
    store.queues.set("night", max_depth=None)
    clock.advance(HOUR)
    store.tick()
    assert [each.noun for each in notices(store)] == ["failures"]
    schedule = store.schedules.get("report")
    last = schedule.last_job
    assert last is not None and last != first
    fail(store, last, "no ink")
    failures, late = notices(store)
    assert late == Notice("schedule", "report", f"its last job, {last}, failed", schedule.fired_at)
    store.schedules.pause("report")
    assert notices(store) == [failures] and failures.text == "2 jobs failed: no ink"


def test_failed_jobs_are_counted_by_queue_and_error(store: Store) -> None:
    errors = ["timed out after 3.2s (line 7 of tag.py)"] * 2 + [
        "timed out after 0.1s (line 7 of tag.py)\nand more",
        "no ink",
    ]
    for error in errors:
        fail(store, add(store, max_attempts=1), error)
    fail(store, add(store, queue="print", max_attempts=1), "no ink")
    found = notices(store)
    assert {each.noun for each in found} == {"failures"}
    assert [(each.which, each.text) for each in found] == [
        ("default", "3 jobs failed: timed out after 0.1s (line 7 of tag.py)"),
        ("print", "1 job failed: no ink"),
        ("default", "1 job failed: no ink"),
    ]
    assert found[0].since == store.jobs.get(1).finished_at
    for job in store.jobs.list("failed"):
        store.jobs.retry(job.id)
    assert notices(store) == []


def test_a_thousand_failed_jobs_are_all_counted_by_a_look_at_the_newest(store: Store) -> None:
    ids = add_many(store, 1004, queue="tag")
    fail(store, add(store, queue="tag", max_attempts=1), "no ink")
    error = "'no ' || substr('abcdefghijkl', CAST(id % 12 AS INT) + 1, 1)"
    rows(store, f"UPDATE job SET status = 'failed', finished_at = 1, error = {error} WHERE id <= 1004")
    with store.write() as tx:
        tx.moved("force", "tag", "ready", "failed", ids)
    found = notices(store)
    assert len(found) == MOST_ERRORS + 1 and found[0].text == "84 jobs failed: no i"
    assert sum(int(each.text.split()[0].replace(",", "")) for each in found) == 1005


def test_failed_jobs_that_share_no_error_are_counted_by_queue(store: Store) -> None:
    for word in "abcdefghijklm":
        fail(store, add(store, max_attempts=1), f"no {word}")
    found = notices(store)
    assert len(found) == MOST_ERRORS + 1
    assert (found[-1].which, found[-1].text) == ("default", "3 more jobs failed, in other ways or before")


def test_a_quarantined_job_by_itself(store: Store, clock: FakeClock) -> None:
    poison = add(store, "poison", max_attempts=9)
    for _ in range(3):
        worker = register(store)
        claim(store, poison, worker, HOUR)
        clock.advance(1)
        store.workers.heartbeat(worker)
        clock.advance(MINUTE)
        store.tick()
    (found,) = notices(store)
    assert (found.noun, found.which, found.since) == ("job", str(poison), store.jobs.get(poison).finished_at)
    assert found.text.startswith("poison: quarantined: cost 3 workers")


def test_a_run_far_beyond_the_usual_time_of_its_kind(store: Store, clock: FakeClock) -> None:
    first, hanging, young = add(store, kind="tag"), add(store, "hangs", kind="tag"), add(store, kind="scan")
    taken = claim(store, first)
    clock.advance(20 * SECOND)
    store.claims.settle(taken, Done())
    began = store.now()
    worker = claim(store, hanging, lease=5 * HOUR).worker_id
    claim(store, young, lease=5 * HOUR)
    clock.advance(3 * MINUTE)
    assert notices(store) == []
    clock.advance(MINUTE)
    text = f"hangs: {worker} runs it for 4m, and others took 20s at most"
    assert notices(store) == [Notice("run", str(hanging), text, began)]


def test_a_host_that_is_late_and_one_that_went_without_leaving(store: Store, clock: FakeClock) -> None:
    store.slots.take("main", host_id(), {"default": 1})
    crew = Crew(store)
    store.orchestrators.came_up(crew.workers[0], "worker:default:0")
    until = crew.renew()
    clock.advance(LEASE)
    (late,) = notices(store)
    assert (late.noun, late.since) == ("host", until) and "has not renewed its lease" in late.text
    with store.write() as tx:
        tx.execute("orchestrator.end", id=crew.id)
    (gone,) = notices(store)
    assert gone.noun == "host" and "did not leave" in gone.text


def test_a_host_that_left_is_missed_by_nobody(store: Store) -> None:
    store.slots.take("main", host_id(), {"default": 1})
    crew = Crew(store)
    store.orchestrators.came_up(crew.workers[0], "worker:default:0")
    store.orchestrators.leave(crew.id)
    assert notices(store) == []


def test_the_last_deaths_newest_first_of_any_slot_or_of_one(store: Store, clock: FakeClock) -> None:
    store.slots.take("main", host_id(), {"default": 2})
    crew = Crew(store, workers=2)
    for n, worker in enumerate(crew.workers):
        clock.advance(SECOND)
        death = Death(worker, f"worker:default:{n}", "signaled", "killed by signal 9", signal=9)
        store.orchestrators.record_death(death, Report(), RestartPolicy())
    first, second = crew.workers
    assert [(worker, found.signal) for worker, found in store.workers.deaths()] == [(second, 9), (first, 9)]
    assert [worker for worker, _ in store.workers.deaths(limit=1)] == [second]
    ((worker, found),) = store.workers.deaths(slot="worker:default:0")
    assert worker == first and found.began_at is not None and found.began_at < found.died_at
    assert [worker for worker, _ in store.workers.deaths(worker=second)] == [second]
    assert store.workers.deaths(worker="worker-00000000") == []
