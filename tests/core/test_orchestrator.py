"""An orchestrator's lease, and the grace after the store itself was away."""

from __future__ import annotations

from rota.core.orchestrator import (
    END_AFTER,
    ENDED,
    HELD,
    LEASE,
    LOST,
    RENEW_EVERY,
    RUNNING,
    TELL_AFTER,
    Pulse,
    is_lapsed,
    shown,
    standing,
)
from rota.core.times import SECOND

NOW = 1000 * SECOND


def test_a_lease_leaves_room_for_missed_renewals() -> None:
    assert LEASE == 15 * SECOND and RENEW_EVERY * 3 < LEASE


def test_a_fresh_pulse_needs_no_grace_because_only_that_host_is_away() -> None:
    assert not Pulse(NOW - LEASE // 2, 0, 0).needs_grace(NOW)


def test_a_pulse_older_than_half_a_lease_needs_grace_once_per_silence() -> None:
    silent_since = NOW - LEASE // 2 - 1
    assert Pulse(silent_since, 0, 0).needs_grace(NOW)
    assert not Pulse(silent_since, silent_since, NOW).needs_grace(NOW)
    assert Pulse(silent_since, silent_since - 1, 0).needs_grace(NOW), "a later silence gets a grace of its own"


def test_a_lease_lapses_at_its_end_and_not_before() -> None:
    assert not is_lapsed(NOW, 0, NOW - 1)
    assert is_lapsed(NOW, 0, NOW)


def test_a_grace_gives_one_whole_lease_from_when_it_was_set() -> None:
    assert not is_lapsed(NOW - LEASE, NOW, NOW + LEASE - 1)
    assert is_lapsed(NOW - LEASE, NOW, NOW + LEASE)


def test_one_that_missed_a_renewal_is_shown_as_late_before_its_lease_lapses() -> None:
    renewed_at = NOW - 2 * RENEW_EVERY
    assert shown(RUNNING, renewed_at + LEASE, NOW) == RUNNING
    assert shown(RUNNING, renewed_at + LEASE, NOW + 1) == "late"
    assert renewed_at + LEASE > NOW + 1
    assert shown(RUNNING, None, NOW) == RUNNING


def test_without_renewal_handlers_are_told_at_ten_seconds_and_a_fenced_queues_ended_at_twelve() -> None:
    assert (TELL_AFTER, END_AFTER) == (10 * SECOND, 12 * SECOND)
    assert standing(NOW, NOW) == HELD
    assert standing(NOW, NOW + 10 * SECOND - 1) == HELD
    assert standing(NOW, NOW + 10 * SECOND) == LOST
    assert standing(NOW, NOW + 12 * SECOND - 1) == LOST
    assert standing(NOW, NOW + 12 * SECOND) == ENDED


def test_a_fenced_queues_jobs_are_ended_well_before_the_lease_lapses() -> None:
    lapses_at = NOW + LEASE
    assert standing(NOW, lapses_at - 3 * SECOND) == ENDED and not is_lapsed(lapses_at, 0, lapses_at - 1)
