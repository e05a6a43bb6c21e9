"""Durations and instants, as people write them and as they are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.errors import BadInput
from rota.core.times import (
    DAY,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    format_duration,
    format_instant,
    instant_of,
    parse_duration,
    parse_instant,
)

YEAR_9999 = 253_370_764_800 * SECOND


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90s", 90 * SECOND),
        ("30m", 30 * MINUTE),
        ("2h", 2 * HOUR),
        ("1h30m", 90 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("250ms", 250 * MILLISECOND),
        ("7d", 7 * DAY),
        (" 5M ", 5 * MINUTE),
        ("0s", 0),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, duration: int) -> None:
    assert parse_duration(text) == duration


def test_a_bare_number_counts_in_the_callers_unit_or_is_refused() -> None:
    assert parse_duration("30", bare=MINUTE) == 30 * MINUTE
    with pytest.raises(BadInput, match=r"write for example 90s, 30m or 2h$"):
        parse_duration("30")


@pytest.mark.parametrize(
    "text", ["", " ", "m", "-5m", "+5m", "5x", "1..5s", ".s", "5m x", "1e3s", "nan", "inf", "٣s", "s5", "5 m"]
)
def test_nonsense_for_a_duration_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(BadInput, match=r"write for example 90s, 30m or 2h \(a bare number is minutes\)"):
        parse_duration(text, bare=MINUTE)


@pytest.mark.parametrize("text", ["36501d", "9" * 30 + "s", "9" * 400 + "s", "36500d1s"])
def test_a_duration_beyond_a_century_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is too long: at most 36500 days"):
        parse_duration(text)


@given(st.text(max_size=12))
def test_no_text_makes_the_duration_reader_stumble(text: str) -> None:
    try:
        assert parse_duration(text, bare=MINUTE) >= 0
    except BadInput as problem:
        assert repr(text) in str(problem)


@given(st.integers(0, 36_500), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_units_add_up(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = days * DAY + hours * HOUR + minutes * MINUTE + seconds * SECOND
    if total <= 36_500 * DAY:
        assert parse_duration(f"{days}d{hours}h{minutes}m{seconds}s") == total


@given(st.integers(0, 36_500 * DAY))
def test_a_shown_duration_reads_back_as_nearly_the_same(duration: int) -> None:
    shown = format_duration(duration)
    assert abs(parse_duration(shown) - duration) <= max(1, duration // 24)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (1_500, "1.5ms"),
        (1_500_000, "1.5s"),
        (30 * MINUTE, "30m"),
        (2 * HOUR + 5 * MINUTE, "2h5m"),
        (DAY + HOUR + SECOND, "1d1h"),
    ],
)
def test_durations_are_shown_short(duration: int, text: str) -> None:
    assert format_duration(duration) == text


def test_instants_are_shown_in_utc_with_z() -> None:
    assert format_instant(0) == "1970-01-01T00:00:00.000000Z"
    assert format_instant(1_800_000_000_123_456) == "2027-01-15T08:00:00.123456Z"


@given(st.integers(0, YEAR_9999))
def test_an_instant_reads_back_as_itself(instant: int) -> None:
    assert parse_instant(format_instant(instant), 0) == instant


def test_instants_without_a_zone_are_utc_and_others_are_moved_there() -> None:
    assert parse_instant("1970-01-01T01:00", 0) == HOUR
    assert parse_instant("1970-01-01T01:00+01:00", 0) == 0
    assert parse_instant("1970-01-02", 0) == DAY


def test_a_plus_counts_from_now() -> None:
    assert parse_instant("+30m", 5) == 30 * MINUTE + 5
    with pytest.raises(BadInput, match="is not a duration"):
        parse_instant("+30", 5)


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01", "-30m", "25:00", "9999-12-31T23:59-23:59"])
def test_nonsense_for_a_time_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(BadInput, match=r"write for example 2026-12-01T09:00Z or \+30m"):
        parse_instant(text, 0)


@given(st.integers(0, YEAR_9999))
def test_a_written_instant_is_read_back_as_the_same_moment(instant: int) -> None:
    assert instant_of(format_instant(instant)) == instant
