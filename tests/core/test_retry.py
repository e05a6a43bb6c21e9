"""The wait after a failure: doubled, capped, with full jitter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rota.core.retry import Backoff
from rota.core.times import MINUTE, SECOND

CHANCES = st.floats(0, 1, exclude_max=True)


def test_by_default_the_longest_wait_doubles_from_two_seconds_to_ten_minutes() -> None:
    longest = [Backoff().delay(attempt, 1.0) // SECOND for attempt in range(1, 12)]
    assert longest == [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]


@given(st.integers(1, 10_000), CHANCES, st.integers(1, 10**9), st.integers(1, 10**12))
def test_a_wait_is_never_negative_and_never_over_its_cap(attempt: int, chance: float, first: int, most: int) -> None:
    assert 0 <= Backoff(first, most).delay(attempt, chance) <= most


@given(st.integers(1, 20), CHANCES)
def test_jitter_is_full_so_the_wait_is_that_share_of_the_longest(attempt: int, chance: float) -> None:
    longest = Backoff().delay(attempt, 1.0)
    assert abs(Backoff().delay(attempt, chance) - longest * chance) <= 1
    assert Backoff().delay(attempt, 0.0) == 0


def test_both_ends_of_the_backoff_are_settings() -> None:
    assert [Backoff(SECOND, MINUTE).delay(attempt, 1.0) // SECOND for attempt in (1, 2, 10)] == [1, 2, 60]
