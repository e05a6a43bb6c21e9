"""Numbers, durations, charts and columns as a screen shows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.times import HOUR, MINUTE, SECOND
from rota.top.format import GAP, Column, ago, bars, count, rate, span, widths


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9999, "9999"),
        (10_000, "10.0k"),
        (65_536, "65.5k"),
        (123_456, "123k"),
        (1_250_000, "1.2M"),
        (5 * 10**9, "5.0G"),
    ],
)
def test_a_count_takes_at_most_five_places(number: int, text: str) -> None:
    assert count(number) == text


@given(st.integers(0, 10**11))
def test_no_count_is_longer_or_fails(number: int) -> None:
    assert len(count(number)) <= 5


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (0, "–"),
        (0.01, "0.6/m"),
        (0.0949, "5.7/m"),
        (0.1, "0.1/s"),
        (9.94, "9.9/s"),
        (12.4, "12/s"),
        (12_345.0, "12.3k/s"),
    ],
)
def test_a_rate_is_per_second_or_per_minute_when_that_is_little(per_second: float, text: str) -> None:
    assert rate(per_second) == text


def test_a_duration_is_told_to_the_second_and_never_below_zero() -> None:
    assert span(MINUTE + 5 * SECOND + 999_999) == "1m5s"
    assert span(-5 * SECOND) == "0s"
    assert ago(None, HOUR) == ""
    assert ago(SECOND, 2 * HOUR) == "1h59m"


def test_a_chart_reaches_its_top_at_the_largest_value_and_shows_whatever_is_not_zero() -> None:
    assert bars([0, 1, 500, 1000]) == [" ▁▄█"]
    assert bars([0, 1, 500, 1000], 2) == ["   █", " ▁██"]
    assert bars([0, 0, 0], 2) == ["   ", "   "]
    assert bars([]) == [""]


@given(st.lists(st.integers(0, 10**9), max_size=60), st.integers(1, 5))
def test_a_chart_has_its_height_and_a_place_for_every_value(values: list[int], height: int) -> None:
    lines = bars(values, height)
    assert len(lines) == height
    assert {len(line) for line in lines} == {len(values)}
    assert [value > 0 for value in values] == [place != " " for place in lines[-1]]


columns = st.lists(
    st.builds(
        Column, st.just("X"), st.integers(1, 20), st.integers(0, 40), st.booleans(), st.booleans(), st.integers(0, 150)
    ),
    min_size=1,
    max_size=8,
)


@given(columns, st.lists(st.integers(0, 100), min_size=8, max_size=8), st.integers(20, 200))
def test_columns_never_take_more_room_than_there_is_and_the_first_stays(
    shown: list[Column], needed: list[int], room: int
) -> None:
    first = shown[0].replace(from_width=0)
    found = widths([first, *shown[1:]], needed[: len(shown)], room)
    taken = [width for width in found if width]
    assert sum(taken) + GAP * (len(taken) - 1) <= room
    assert found[0] >= first.least
    for column, width in zip([first, *shown[1:]], found, strict=True):
        assert not width or (width >= column.least and room >= column.from_width)


def test_the_column_that_grows_takes_what_is_left() -> None:
    shown = (Column("A", 4, 10), Column("B", 6, grows=True), Column("C", 5), Column("D", 5, from_width=60))
    assert widths(shown, [8, 99, 5, 5], 50) == [8, 50 - 8 - 5 - 2 * GAP, 5, 0]
    assert widths(shown, [8, 99, 5, 5], 60) == [8, 60 - 8 - 5 - 5 - 3 * GAP, 5, 5]
    assert widths(shown, [8, 99, 5, 5], 15) == [7, 6, 0, 0]
