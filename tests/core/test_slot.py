"""When a slot is filled again, and when it is given up."""

from __future__ import annotations

import pytest

from rota.core.death import (
    DEADLINE,
    EXIT_SETUP_FAILED,
    EXIT_TOO_MANY_ERRORS,
    EXITED,
    HEARTBEAT_TIMEOUT,
    OPERATOR,
    RECYCLED,
    SETUP_FAILED,
    SIGNALED,
    STARTUP_TIMEOUT,
    TOO_MANY_ERRORS,
    Charge,
    Exit,
    charge,
)
from rota.core.slot import GiveUp, History, Restart, RestartPolicy
from rota.core.times import MINUTE, SECOND

POLICY = RestartPolicy()
COUNTED = Charge(counts=True, backs_off=True)
UNSTARTED = charge(STARTUP_TIMEOUT, was_running=False, job_deaths=0)


def test_the_backoff_doubles_from_a_second_and_the_sixth_death_gives_up() -> None:
    history, now, waits = History(), 1000 * SECOND, []
    for _ in range(5):
        history, decision = history.after_death(POLICY, COUNTED, now)
        assert isinstance(decision, Restart)
        waits.append(decision.after // SECOND)
        now += decision.after
    assert waits == [1, 2, 4, 8, 16]
    failed, decision = history.after_death(POLICY, COUNTED, now)
    assert decision == GiveUp("restarted 5 times within 300 s")
    assert (failed.failed_at, failed.failure_reason) == (now, "restarted 5 times within 300 s")
    assert (failed.lifetime, failed.restarts) == (history.lifetime, history.restarts), (
        "asked before anything is counted"
    )


def test_the_window_slides_and_the_backoff_with_it() -> None:
    times = [n * MINUTE for n in range(5)]
    assert isinstance(POLICY.decide(times, 5, 5 * MINUTE - 1), GiveUp)
    assert POLICY.decide(times, 5, 5 * MINUTE) == Restart(16 * SECOND), "the first has just left the window"
    assert POLICY.decide(times, 5, 9 * MINUTE) == Restart(SECOND), "five good minutes clear it"


def test_the_backoff_ends_at_a_minute() -> None:
    loose = RestartPolicy(most_in_window=100, most_in_lifetime=100)
    assert loose.decide([0] * 50, 50, SECOND) == Restart(60 * SECOND)


def test_a_crash_every_six_minutes_is_restarted_twenty_times_and_no_more() -> None:
    history, now = History(), 0
    for _ in range(20):
        history, decision = history.after_death(POLICY, COUNTED, now)
        assert decision == Restart(SECOND)
        now += 6 * MINUTE
    failed, decision = history.after_death(POLICY, COUNTED, now)
    assert isinstance(decision, GiveUp)
    assert failed.failure_reason == decision.reason == "restarted 20 times in all, at most 20 are allowed"


def unstarted(times: int) -> History:
    """A slot whose last starts ran out of time, six minutes apart: none is within the window of the next."""
    history = History()
    for n in range(times):
        history, decision = history.after_death(POLICY, UNSTARTED, n * 6 * MINUTE)
        assert decision == Restart(SECOND)
    return history


def test_the_fifth_start_in_a_row_that_is_not_ready_in_time_gives_up_whatever_the_window() -> None:
    history, now = unstarted(4), 24 * MINUTE
    failed, decision = history.after_death(POLICY, UNSTARTED, now)
    assert decision == GiveUp("was not ready in time, 5 starts in a row")
    assert (failed.failure_reason, failed.failed_at) == ("was not ready in time, 5 starts in a row", now)
    assert (failed.lifetime, failed.restarts) == (4, history.restarts), "asked before anything is counted"


def test_a_death_of_another_kind_ends_the_row_of_starts_that_were_not_ready() -> None:
    history, decision = unstarted(4).after_death(POLICY, COUNTED, 24 * MINUTE)
    assert decision == Restart(SECOND)
    for n in range(5, 9):
        history, decision = history.after_death(POLICY, UNSTARTED, n * 6 * MINUTE)
        assert isinstance(decision, Restart), "four more are borne"
    _, decision = history.after_death(POLICY, UNSTARTED, 9 * 6 * MINUTE)
    assert isinstance(decision, GiveUp)


def test_a_start_that_a_person_ended_neither_counts_in_that_row_nor_ends_it() -> None:
    """That a worker which is ready ends it is `test_orphans`'s: the store hears of it."""
    history, decision = unstarted(4).after_death(POLICY, charge(OPERATOR, False, 0), 24 * MINUTE)
    assert (history, decision) == (unstarted(4), Restart(0))
    _, decision = history.after_death(POLICY, UNSTARTED, 24 * MINUTE)
    assert isinstance(decision, GiveUp)


@pytest.mark.parametrize("reason", [DEADLINE, RECYCLED, OPERATOR])
def test_what_is_nobodys_fault_is_replaced_at_once_and_counts_for_nothing(reason: str) -> None:
    after = History((5,), 1).after_death(POLICY, charge(reason, True, 0), 77)
    assert after == (History((5,), 1), Restart(0))


def test_ten_errors_in_a_row_back_off_but_do_not_count() -> None:
    after = History().after_death(POLICY, charge(TOO_MANY_ERRORS, False, 0), 77)
    assert after == (History(), Restart(SECOND))


@pytest.mark.parametrize("reason", [SIGNALED, EXITED, HEARTBEAT_TIMEOUT])
def test_a_job_that_has_cost_a_worker_before_is_to_blame_and_not_the_slot(reason: str) -> None:
    assert charge(reason, was_running=False, job_deaths=0).counts, "at boot or idle"
    assert charge(reason, was_running=True, job_deaths=0).counts, "the first time both"
    assert not charge(reason, was_running=True, job_deaths=1).counts


@pytest.mark.parametrize(
    ("ended", "reason", "text"),
    [
        (Exit(None, 9), SIGNALED, "ended by signal 9"),
        (Exit(0, None), EXITED, "exited with code 0"),
        (Exit(EXIT_SETUP_FAILED, None), SETUP_FAILED, "exited with code 80"),
        (Exit(EXIT_TOO_MANY_ERRORS, None), TOO_MANY_ERRORS, "exited with code 81"),
    ],
)
def test_an_exit_is_told_by_its_reason_code_and_signal(ended: Exit, reason: str, text: str) -> None:
    assert (ended.reason, ended.text) == (reason, text)
