"""An orchestrator's opinion of a worker that it watches."""

from __future__ import annotations

import pytest

from rota.core.death import HEARTBEAT_TIMEOUT, INVALID_FRAMES, RECOVERY_TIMEOUT, STARTUP_TIMEOUT
from rota.core.health import (
    DEAD,
    HEALTHY,
    LATE,
    PENDING,
    RECOVERING,
    Activity,
    Health,
    HealthPolicy,
)
from rota.core.times import SECOND

POLICY = HealthPolicy()
IDLE, BUSY = Activity(), Activity(job=5)


def opinion(health: Health, seconds: float, activity: Activity = IDLE) -> tuple[str, str | None]:
    after, reason = health.assess(POLICY, activity, round(seconds * SECOND))
    return after.state, reason


def test_a_worker_has_a_minute_to_say_that_it_is_well() -> None:
    started = Health(PENDING, 0)
    assert opinion(started, 59.9) == (PENDING, None)
    assert opinion(started, 60) == (PENDING, STARTUP_TIMEOUT)
    assert opinion(started.healthy(59 * SECOND), 60) == (HEALTHY, None)


def test_nine_silent_seconds_are_a_miss_and_three_misses_end_an_idle_worker() -> None:
    well = Health(HEALTHY, 0)
    assert opinion(well, 8.9) == (HEALTHY, None)
    assert opinion(well, 9) == (LATE, None)
    assert opinion(well, 26.9) == (LATE, None)
    assert opinion(well, 27) == (LATE, HEARTBEAT_TIMEOUT)


def test_only_a_healthy_frame_clears_misses_and_nothing_revives_the_dead() -> None:
    late, _ = Health(HEALTHY, 0).assess(POLICY, IDLE, 20 * SECOND)
    assert opinion(late.healthy(21 * SECOND), 29) == (HEALTHY, None)
    assert Health(DEAD, 0).healthy(SECOND).state == DEAD
    assert Health(DEAD, 0).recovering(5, SECOND).state == DEAD


def test_a_busy_worker_may_be_silent_until_its_deadline_or_for_two_minutes() -> None:
    well = Health(HEALTHY, 0)
    assert opinion(well, 119, BUSY) == (LATE, None)
    assert opinion(well, 120, BUSY) == (LATE, HEARTBEAT_TIMEOUT)
    timed = Activity(job=5, deadline=40 * SECOND)
    assert opinion(well, 39, timed) == (LATE, None)
    assert opinion(well, 40, timed) == (LATE, HEARTBEAT_TIMEOUT)
    assert opinion(well, 27, Activity(job=5, stopped=True)) == (LATE, HEARTBEAT_TIMEOUT), "stopped is no excuse"


@pytest.mark.parametrize(("asked", "granted"), [(1, 5), (30, 30), (10_000, 120), (None, 120), (-3, 5)])
def test_recovering_is_granted_once_between_five_seconds_and_two_minutes(asked: float | None, granted: int) -> None:
    recovering = Health(HEALTHY, 0).recovering(asked, 0)
    assert opinion(recovering, granted - 0.1) == (RECOVERING, None)
    assert opinion(recovering, granted) == (RECOVERING, RECOVERY_TIMEOUT)
    assert recovering.recovering(120, 4 * SECOND) == recovering, "asking again moves nothing"
    assert recovering.healthy(SECOND) == Health(HEALTHY, SECOND)


def test_a_suspect_that_only_babbled_dies_of_that() -> None:
    assert opinion(Health(HEALTHY, 0).on_garbage(), 27) == (LATE, INVALID_FRAMES)
