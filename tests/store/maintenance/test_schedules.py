"""Schedules in the store: fired once by whoever looks first, never twice for one time, and never in anyone's way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rota.core.errors import BadInput, Conflict, NotFound
from rota.core.schedule import ALL, SKIP, NewSchedule
from rota.core.times import HOUR, MINUTE, SECOND
from rota.store.maintenance.reconcile import Reconciled
from tests.support.stores import again, rows, watch_writes
from tests.support.work import Crew, claim

if TYPE_CHECKING:
    from rota.core.schedule import Schedule
    from rota.core.times import Instant
    from rota.store.store import Store
    from tests.support.clock import FakeClock

HOURLY = NewSchedule("report", "0 * * * *", queue="night", kind="report", payload_json='{"a":1}', priority=3)


def due(store: Store, schedule: NewSchedule = HOURLY) -> Instant:
    """Add it; when it is due."""
    next_at = store.schedules.add(schedule).next_at
    assert next_at is not None
    return next_at


def until(store: Store, clock: FakeClock, wall: Instant) -> None:
    clock.advance(wall - store.database.wall())


def jobs(store: Store) -> list[tuple[str, str, str | None, int | None]]:
    return rows(store, "SELECT title, queue, payload, scheduled_for FROM job ORDER BY id")


def told(store: Store, verb: str) -> list[dict[str, object]]:
    facts = [fact for (text,) in rows(store, "SELECT facts FROM event") for fact in json.loads(text)]
    return [fact[3] for fact in facts if fact[:2] == ["schedule", verb]]


def test_nothing_happens_before_its_time_and_one_job_is_added_then(store: Store, clock: FakeClock) -> None:
    at = due(store)
    until(store, clock, at - 1)
    store.tick()
    assert jobs(store) == []
    until(store, clock, at)
    store.tick()
    store.tick()
    assert jobs(store) == [("report", "night", '{"a":1}', at)]
    (job,) = store.jobs.ready("night")
    assert (job.kind, job.priority, job.scheduled_for) == ("report", 3, at)
    found = store.schedules.get("report")
    assert (found.next_at, found.last_at, found.last_job, found.last_status) == (at + HOUR, at, job.id, "ready")
    assert told(store, "fire") == [{"jobs": [job.id], "at": store.database.wall() and _iso(at)}]


def _iso(instant: Instant) -> str:
    from rota.core.times import format_instant

    return format_instant(instant)


def test_who_waits_knows_when_the_next_is_due(store: Store, clock: FakeClock) -> None:
    at = due(store)
    assert store.next_due() == at - store.database.wall()
    until(store, clock, at)
    assert store.next_due() == 0


def test_an_orchestrator_hands_the_job_out_with_its_time(store: Store, clock: FakeClock) -> None:
    at = due(store)
    crew = Crew(store, queue="night")
    until(store, clock, at)
    handed = crew.exchange().claims or crew.exchange().claims
    assert [(each.kind, each.scheduled_for) for each in handed] == [("report", at)]


def test_its_time_stays_with_a_job_that_is_tried_again(store: Store, clock: FakeClock) -> None:
    at = due(store)
    until(store, clock, at)
    store.tick()
    (job,) = store.jobs.ready("night")
    claim(store, job.id)
    store.jobs.fail(job.id, "no")
    assert store.jobs.get(job.id).scheduled_for == at


def test_a_look_when_nothing_is_due_writes_nothing(store: Store) -> None:
    due(store)
    written = watch_writes(store)
    store.tick()
    store.schedules.declare([])
    assert not written()


def test_missed_times_are_made_up_for_by_policy(store: Store, clock: FakeClock) -> None:
    at = due(store, HOURLY.replace(name="once"))
    due(store, HOURLY.replace(name="all", missed=ALL))
    due(store, HOURLY.replace(name="skip", missed=SKIP))
    until(store, clock, at + 2 * HOUR + 30 * MINUTE)
    store.tick()
    found = [(name, for_time) for name, _, _, for_time in jobs(store)]
    all_times = [("all", at), ("all", at + HOUR), ("all", at + 2 * HOUR)]
    assert sorted(found) == [*all_times, ("once", at + 2 * HOUR)]
    assert [schedule.next_at for schedule in store.schedules.list()] == [at + 3 * HOUR] * 3


def test_a_clock_that_is_set_back_fires_nothing_twice(store: Store, clock: FakeClock) -> None:
    at = due(store)
    until(store, clock, at)
    store.tick()
    clock.jump_wall(-3 * HOUR)
    for _ in range(4):
        clock.advance(HOUR)
        store.tick()
    assert [for_time for *_, for_time in jobs(store)] == [at, at + HOUR]


def test_a_paused_one_adds_nothing_and_resumes_with_its_next_time(store: Store, clock: FakeClock) -> None:
    at = due(store)
    assert store.schedules.pause("report", "moving").pause_reason == "moving"
    until(store, clock, at + 5 * HOUR + MINUTE)
    store.tick()
    assert jobs(store) == [] and store.next_due() is None
    assert store.schedules.resume("report").next_at == at + 6 * HOUR
    store.tick()
    assert jobs(store) == []
    assert [fact["reason"] for fact in told(store, "pause")] == ["moving"] and told(store, "resume") == [{}]
    until(store, clock, at + 6 * HOUR)
    store.tick()
    assert len(jobs(store)) == 1


def test_run_adds_a_job_now_and_leaves_the_times_as_they_are(store: Store) -> None:
    at = due(store)
    job = store.schedules.run("report")
    found = store.schedules.get("report")
    assert (job.status, job.scheduled_for, job.payload) == ("ready", None, {"a": 1})
    assert (found.next_at, found.last_at, found.last_job) == (at, None, job.id)


def test_a_removed_one_fires_no_more_and_its_jobs_stay(store: Store, clock: FakeClock) -> None:
    at = due(store)
    job = store.schedules.run("report")
    store.schedules.remove("report")
    until(store, clock, at)
    store.tick()
    assert [found.id for found in store.jobs.list()] == [job.id]
    for ask in (store.schedules.get, store.schedules.remove, store.schedules.pause, store.schedules.run):
        with pytest.raises(NotFound, match="there is no schedule report; known: none"):
            ask("report")


def test_a_declaration_follows_the_code_and_keeps_the_pause(store: Store) -> None:
    store.schedules.declare([HOURLY])
    first = store.schedules.pause("report")
    written = watch_writes(store)
    store.schedules.declare([HOURLY])
    assert not written()
    store.schedules.declare([HOURLY.replace(missed=ALL)])
    assert store.schedules.get("report") == first.replace(missed=ALL)
    store.schedules.declare([HOURLY.replace(cron="30 * * * *")])
    changed = store.schedules.get("report")
    assert changed.next_at != first.next_at and changed.paused_at is not None


def test_a_time_that_has_come_is_not_lost_by_a_declaration_that_names_the_same_times(
    store: Store, clock: FakeClock
) -> None:
    store.schedules.declare([HOURLY])
    at = store.schedules.get("report").next_at
    assert at is not None
    until(store, clock, at)
    store.schedules.declare([HOURLY.replace(priority=7)])
    store.tick()
    assert jobs(store) == [("report", "night", '{"a":1}', at)]


def test_an_app_takes_a_name_over_and_hands_change_only_what_is_theirs(store: Store) -> None:
    store.schedules.add(HOURLY)
    assert store.schedules.add(HOURLY.replace(queue="other")).queue == "other"
    store.schedules.declare([HOURLY])
    assert store.schedules.get("report").declared
    with pytest.raises(Conflict, match="declared by an app"):
        store.schedules.add(HOURLY)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cron": "often"}, "cron expression"),
        ({"timezone": "Mars"}, "time zone"),
        ({"queue": "a b"}, "queue"),
        ({"kind": "rota:x"}, "rota's own"),
        ({"payload_json": '"' + "x" * 300_000 + '"'}, "payload"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(
    store: Store, wrong: dict[str, object], message: str
) -> None:
    written = watch_writes(store)
    with pytest.raises(BadInput, match=message):
        store.schedules.add(HOURLY.replace(**wrong))
    assert not written()


def test_a_full_queue_costs_the_time_and_says_so(store: Store, clock: FakeClock) -> None:
    at = due(store)
    store.schedules.run("report")
    store.queues.set("night", max_depth=1)
    until(store, clock, at)
    store.tick()
    found = store.schedules.get("report")
    assert len(jobs(store)) == 1 and found.next_at == at + HOUR and "is full" in (found.error or "")
    assert len(told(store, "refuse")) == 1
    store.queues.set("night", max_depth=None)
    until(store, clock, at + HOUR)
    store.tick()
    assert len(jobs(store)) == 2 and store.schedules.get("report").error is None


def test_one_whose_zone_nobody_here_knows_is_paused_and_stops_no_other(store: Store, clock: FakeClock) -> None:
    at = due(store)
    due(store, HOURLY.replace(name="other"))
    rows(store, "UPDATE schedule SET timezone = 'Mars/Olympus' WHERE name = 'report'")
    until(store, clock, at)
    store.tick()
    assert [name for name, *_ in jobs(store)] == ["other"]
    assert "Mars/Olympus" in (store.schedules.get("report").pause_reason or "")
    assert not store.database.execute("tick.due", {"now": store.now(), "wall": store.database.wall()})[0][0]


def test_of_two_who_look_at_once_one_fires(store: Store, clock: FakeClock) -> None:
    at = due(store)
    with again(store) as other:
        until(store, clock, at)
        seen: list[Schedule] = other.schedules.list()
        store.tick()
        with other.write() as tx:
            from rota.store.maintenance import schedules

            schedules._fire(other, tx, seen[0], at)  # what it read before the first one fired
    assert len(jobs(store)) == 1


def test_counters_and_states_are_true_afterwards(store: Store, clock: FakeClock) -> None:
    at = due(store, HOURLY.replace(missed=ALL))
    until(store, clock, at + 3 * HOUR + SECOND)
    store.tick()
    assert store.queues.counts()["night"]["ready"] == 4
    assert store.reconcile() == Reconciled(0, 0, 0, 0, 0)
