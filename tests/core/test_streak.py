"""When a pool backs off because every job fails, and for how long."""

from __future__ import annotations

import pytest

from rota.core.streak import LONGEST_WAIT, MOST_ROUNDS, REMEMBERED, Streak
from rota.core.times import MINUTE, SECOND


def after(pattern: str, streak: Streak | None = None) -> Streak:
    """A pool after jobs that went well (`.`) or failed (`x`), each another one."""
    streak = streak or Streak()
    for job, how in enumerate(pattern):
        streak = streak.after_success() if how == "." else streak.after_failure(job, 0)
    return streak


def needed(streak: Streak) -> int:
    """How many different jobs must fail in a row until it is on; 0 for never."""
    for count in range(1, 200):
        if after("x" * count, streak).is_on:
            return count
    return 0


@pytest.mark.parametrize(
    ("before", "count"),
    [("", 0), ("xxxxx", 0), ("." * 100, 3), ("." * 10, 6), (".", 13), (".." + "x.." * 33, 13), (".x" * 50 + ".", 20)],
)
def test_how_many_failures_in_a_row_are_no_accident_depends_on_those_before(before: str, count: int) -> None:
    assert needed(after(before)) == count


def test_a_job_that_fails_again_and_again_says_nothing_of_its_pool() -> None:
    streak = after("." * 1000)
    for _ in range(100):
        streak = streak.after_failure(7, 0)
    assert not streak.is_on


def test_one_success_ends_it() -> None:
    streak = after("." * 100 + "xxx")
    assert streak.is_on and not streak.after_success().is_on


def test_what_was_long_ago_is_forgotten_little_by_little() -> None:
    streak = after("x." * REMEMBERED)
    assert needed(streak) == 20
    assert needed(after("." * 10 * REMEMBERED, streak)) == 3


def test_each_round_waits_twice_as_long_and_after_two_minutes_the_jobs_are_to_blame() -> None:
    streak, now, waits = after("." * 100 + "xxx"), 0, []
    while streak.is_on:
        waits.append(streak.until - now)
        now = streak.until
        streak = streak.after_try(now).after_failure(now, now)
    assert waits == [SECOND << n for n in range(MOST_ROUNDS - 1)] + [LONGEST_WAIT]
    assert sum(waits) < 3 * MINUTE
    assert needed(streak) == 0, "until a job has gone well"
