"""A queue's limits: how many may be claimed now, and a rate that is spread evenly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.errors import BadInput
from rota.core.queue import Queue, allow, parse_rate
from rota.core.times import DAY, HOUR, MILLISECOND, MINUTE, SECOND

NOW = 10 * DAY
BURST = 100 * MILLISECOND


def test_without_limits_everything_is_granted() -> None:
    allowance = allow(Queue("q"), 10**6, 50, NOW)
    assert (allowance.granted, allowance.limit) == (50, None)


@pytest.mark.parametrize(("running", "granted"), [(0, 3), (1, 2), (3, 0), (5, 0)])
def test_concurrency_leaves_what_is_free(running: int, granted: int) -> None:
    allowance = allow(Queue("q", concurrency=3), running, 10, NOW)
    assert (allowance.granted, allowance.limit) == (granted, "concurrency")


def test_a_wish_within_the_limits_names_no_limit() -> None:
    assert allow(Queue("q", concurrency=3), 1, 2, NOW).limit is None


def test_a_rate_grants_one_and_the_next_only_after_its_share_of_the_period() -> None:
    queue = Queue("q", rate="10/m")
    first = allow(queue, 0, 5, NOW)
    assert (first.granted, first.limit) == (1, "rate")
    queue = queue.replace(rate_next_at=first.rate_next_at)
    assert allow(queue, 0, 1, NOW + 5 * SECOND).granted == 0
    assert allow(queue, 0, 1, NOW + 6 * SECOND).granted == 1


def test_an_idle_queue_saves_up_no_burst() -> None:
    assert allow(Queue("q", rate="10/m", rate_next_at=NOW - DAY), 0, 100, NOW).granted == 1


def test_nothing_granted_spends_nothing() -> None:
    queue = Queue("q", rate="1/h", rate_next_at=NOW + MINUTE, concurrency=1)
    assert allow(queue, 0, 1, NOW).rate_next_at == NOW + MINUTE
    assert allow(queue, 1, 1, NOW).rate_next_at == NOW + MINUTE


def starts(queue: Queue, steps: list[int], want: int) -> list[int]:
    """When claims are granted to someone who asks again and again, after these pauses."""
    now, granted_at = NOW, []
    for step in steps:
        now += step
        allowance = allow(queue, 0, want, now)
        queue = queue.replace(rate_next_at=allowance.rate_next_at)
        granted_at += [now] * allowance.granted
    return granted_at


def test_someone_who_asks_all_the_time_gets_no_eleventh_within_the_minute() -> None:
    granted_at = starts(Queue("q", rate="10/m"), [50 * MILLISECOND] * 1300, 1)
    assert granted_at[10] - granted_at[0] >= MINUTE


@given(st.lists(st.integers(0, 20 * SECOND), max_size=60), st.integers(1, 30), st.sampled_from(["10/m", "1/s", "7/m"]))
def test_claims_of_a_slow_rate_are_a_period_apart_less_the_lateness_of_the_first(
    steps: list[int], want: int, rate: str
) -> None:
    count, period = int(rate.split("/")[0]), {"m": MINUTE, "s": SECOND}[rate[-1]]
    granted_at = starts(Queue("q", rate=rate), steps, want)
    for first, last in zip(granted_at, granted_at[count:], strict=False):
        assert last - first >= period - BURST - count, f"{count + 1} within {last - first} µs"


@given(st.lists(st.integers(0, 100 * MILLISECOND), max_size=60), st.integers(1, 500))
def test_a_fast_rate_may_catch_up_on_a_hundred_milliseconds_and_no_more(steps: list[int], want: int) -> None:
    granted_at = starts(Queue("q", rate="1000/s"), steps, want)
    for at in range(len(granted_at)):
        in_window = [each for each in granted_at[at:] if each - granted_at[at] < SECOND]
        assert len(in_window) <= 1000 + 101


def test_a_busy_asker_gets_the_whole_rate() -> None:
    assert len(starts(Queue("q", rate="10/m"), [SECOND] * 600, 1)) in (100, 101)
    assert len(starts(Queue("q", rate="1000/s"), [10 * MILLISECOND] * 100, 100)) >= 1000


@pytest.mark.parametrize("rate", [10, 50, 200, 1000])
def test_an_asker_who_is_up_to_a_hundred_milliseconds_late_gets_the_whole_rate(rate: int) -> None:
    granted_at = starts(Queue("q", rate=f"{rate}/s"), [73 * MILLISECOND] * 200, 1000)
    assert len(granted_at) >= 200 * 73 * rate // 1000


@pytest.mark.parametrize(
    ("text", "every"),
    [("10/m", 6 * SECOND), ("1/s", SECOND), ("1000/s", MILLISECOND), ("1/h", HOUR), ("2/d", DAY // 2)],
)
def test_a_rate_is_read_as_the_time_between_two_claims(text: str, every: int) -> None:
    assert parse_rate(text) == every


@pytest.mark.parametrize(
    "text", ["", "10", "/m", "0/s", "-1/s", "1.5/s", "10/w", "10/minute", "ten/m", "10/m/s", "٣/m"]
)
def test_nonsense_for_a_rate_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(BadInput, match=r"write for example 10/m"):
        parse_rate(text)


def test_only_rate_and_concurrency_make_claims_be_counted_one_by_one() -> None:
    assert Queue("q", rate="1/s").is_limited and Queue("q", concurrency=1).is_limited
    assert not Queue("q", max_depth=1, per_key=1, breaker=1).is_limited


def test_a_rate_alone_does_not_force_windows_of_one_job() -> None:
    assert not Queue("q", rate="1/s").is_one_by_one
    assert Queue("q", rate="1/s", concurrency=1).is_one_by_one and Queue("q", per_key=1).is_one_by_one


def test_only_a_queue_with_a_limit_has_limits() -> None:
    assert not Queue("q").has_limits
    assert Queue("q", breaker=3).has_limits and Queue("q", max_depth=1).has_limits
