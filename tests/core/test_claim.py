"""What the end of a claim means, for every ending and every number of attempts left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core import claim as claims
from rota.core import job as jobs
from rota.core.claim import Cancelled, Claim, Died, Done, Failed, Lapsed, Released, Run, Snoozed, end, renewed
from rota.core.retry import Backoff
from rota.core.state_machine import allowed
from tests.core.jobs import a_job

if TYPE_CHECKING:
    from rota.core.claim import End, Ending

BACKOFF = Backoff()
LAST = 2
ENDINGS: list[Ending] = [
    Done("1"),
    Failed("it broke"),
    Failed("it broke", again=False),
    Snoozed(5),
    Released("a note"),
    Released("no such task", jobs.UNKNOWN_KIND),
    Failed("no database", put_off=7),
    Lapsed(),
    Died("killed"),
    Died("killed", was_running=False),
    Cancelled("ann"),
]
each_ending = pytest.mark.parametrize("ending", ENDINGS, ids=repr)


def ended(ending: Ending, attempts: int = 0, chance: float = 0.5, **changes: object) -> End:
    return end(a_job(attempts=attempts, **changes), ending, BACKOFF, chance)


@each_ending
@pytest.mark.parametrize("attempts", [0, 1, LAST])
def test_every_ending_is_a_move_of_both_tables(ending: Ending, attempts: int) -> None:
    decided = ended(ending, attempts)
    assert allowed(claims.MOVES, claims.ACTIVE, decided.verb)
    possible = allowed(jobs.MOVES, jobs.ACTIVE, decided.verb)
    assert decided.status in possible if decided.status else possible - set(jobs.FINAL)


@each_ending
def test_an_ending_spends_an_attempt_unless_the_holder_gave_it_back_or_never_began(ending: Ending) -> None:
    free = isinstance(ending, Snoozed | Released | Cancelled) or ending == Died("killed", was_running=False)
    free = free or (isinstance(ending, Failed) and ending.put_off > 0)
    assert ended(ending).spent == (0 if free else 1)


@each_ending
def test_only_a_claim_that_was_never_started_leaves_no_run(ending: Ending) -> None:
    never = (Died("killed", was_running=False), Released("no such task", jobs.UNKNOWN_KIND))
    assert ended(ending).leaves_run == (ending not in never)


@pytest.mark.parametrize("attempts", [0, LAST])
def test_a_failure_that_its_pool_is_to_blame_for_spends_no_attempt(attempts: int) -> None:
    decided = ended(Failed("no database", put_off=7), attempts)
    assert (decided.status, decided.spent, decided.delay, decided.reason) == (None, 0, 7, claims.POOL)


def test_a_job_of_an_unknown_kind_is_blocked_for_the_time_that_the_settings_say() -> None:
    decided = ended(Released("no such task", jobs.UNKNOWN_KIND))
    aside = (decided.status, decided.blocked_on, decided.unknown, decided.note)
    assert aside == (jobs.BLOCKED, jobs.UNKNOWN_KIND, BACKOFF.unknown, "no such task")


@pytest.mark.parametrize("attempts", [0, 1, LAST])
def test_done_is_done_whatever_came_before(attempts: int) -> None:
    decided = ended(Done('{"a":1}'), attempts)
    assert (decided.verb, decided.status, decided.result, decided.delay) == (jobs.FINISH, jobs.DONE, '{"a":1}', 0)


def test_a_failure_with_attempts_left_waits_and_the_last_one_is_final() -> None:
    first, last = ended(Failed("it broke"), 0), ended(Failed("it broke"), LAST)
    assert (first.verb, first.status, first.error) == (jobs.FAIL, None, "it broke") and first.delay > 0
    assert (last.status, last.error, last.delay) == (jobs.FAILED, "it broke", 0)


def test_a_failure_that_no_attempt_would_help_is_final_at_once() -> None:
    assert ended(Failed("no such file", again=False), 0).status == jobs.FAILED


def test_a_failures_wait_grows_with_its_attempts() -> None:
    assert [ended(Failed("x"), n, 1.0).delay for n in (0, 1)] == [BACKOFF.first, 2 * BACKOFF.first]


@pytest.mark.parametrize("ending", [Lapsed(), Died("killed")], ids=repr)
def test_lapse_and_death_skip_the_backoff_and_fail_the_job_when_attempts_are_used_up(ending: Ending) -> None:
    assert (ended(ending, 0).status, ended(ending, 0).delay) == (None, 0)
    assert ended(ending, LAST).status == jobs.FAILED


def test_a_lapse_is_counted_and_names_the_worker_that_lost_it() -> None:
    decided = ended(Lapsed())
    assert (decided.verb, decided.reason, decided.lapsed, decided.died) == (jobs.EXPIRE, claims.LAPSE, 1, 0)
    assert decided.error is not None and "worker-00000001" in decided.error


def test_the_third_death_quarantines_a_job_even_with_attempts_left() -> None:
    second, third = ended(Died("oom"), deaths=1, max_attempts=9), ended(Died("oom"), deaths=2, max_attempts=9)
    assert second.status is None and second.died == 1
    assert (third.status, third.reason) == (jobs.FAILED, jobs.QUARANTINED)
    assert third.error is not None and third.error.startswith("quarantined: cost 3 workers") and "oom" in third.error


def test_a_death_before_the_job_was_started_costs_it_nothing_even_at_its_last_attempt() -> None:
    decided = ended(Died("oom", was_running=False), LAST, deaths=2)
    assert (decided.status, decided.spent, decided.died) == (None, 0, 0)


@pytest.mark.parametrize("attempts", [0, LAST])
def test_snooze_and_release_never_fail_a_job(attempts: int) -> None:
    snoozed, released = ended(Snoozed(5, "later"), attempts), ended(Released("half done"), attempts)
    assert (snoozed.verb, snoozed.status, snoozed.delay, snoozed.note) == (jobs.SNOOZE, None, 5, "later")
    assert (released.verb, released.status, released.note) == (jobs.RELEASE, None, "half done")


def test_cancelling_is_final_and_says_by_whom() -> None:
    decided = ended(Cancelled("ann"))
    assert (decided.verb, decided.status, decided.error) == (jobs.CANCEL, jobs.CANCELLED, "cancelled by ann")


def test_a_renewal_reaches_a_lease_from_now() -> None:
    assert renewed(a_job(lease_expires_at=1_500), 500, 1_400) == 1_900


def test_a_renewal_stops_at_the_jobs_time_out() -> None:
    assert renewed(a_job(timeout=600, lease_expires_at=1_500), 500, 1_400) == 1_600


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), st.none() | st.integers(1, 10**9))
def test_a_renewal_never_shortens(lease: int, expires: int, now: int, timeout: int | None) -> None:
    assert renewed(a_job(timeout=timeout, lease_expires_at=expires), lease, now) >= expires


def test_a_lease_has_lapsed_from_its_very_end_on_and_only_on_an_active_job() -> None:
    assert not a_job().is_lapsed(1_499)
    assert a_job().is_lapsed(1_500)
    assert not a_job(lease_expires_at=None).is_lapsed(10**12), "a watched worker's claim hangs on its orchestrator"
    assert not a_job(status=jobs.READY).is_lapsed(10**12)


def test_a_deadline_counts_from_the_claim() -> None:
    assert a_job(timeout=250).deadline == 1_250
    assert a_job().deadline is None
    assert a_job(timeout=250, claimed_at=None).deadline is None


def test_a_run_is_named_after_its_token_and_its_status_comes_from_the_table() -> None:
    run = Run(100, 7, "worker-00000001", 1, 0, 1, jobs.EXPIRE, None, None, None, 0)
    assert (run.id, run.status) == ("run-0000002s", claims.EXPIRED)
    assert Claim(7, 100, "worker-00000001", 0, None).run_id == run.id
