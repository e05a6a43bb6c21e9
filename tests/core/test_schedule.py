"""When schedules are due, by the clocks of their zones, and what a look at the clock brings."""

from __future__ import annotations

import pytest

from rota.core import schedule as core
from rota.core.errors import BadInput
from rota.core.schedule import ALL, MOST_MISSED, ONCE, SKIP, NewSchedule, Schedule
from rota.core.times import DAY, HOUR, MINUTE, SECOND, Instant, format_instant, parse_instant

BERLIN = "Europe/Berlin"


def at(text: str) -> Instant:
    return parse_instant(f"{text}Z", 0)


def shown(instant: Instant | None) -> str:
    return "" if instant is None else format_instant(instant)[:16]


def a_schedule(cron: str, missed: str = ONCE, timezone: str = "UTC") -> Schedule:
    said = (timezone, missed, "default", "", None, 0, None, None)
    return Schedule("s", cron, *said, 0, 0, None, None, 0, None, None, None, None)


def times(cron: str, after: str, count: int, timezone: str = BERLIN) -> list[str]:
    found, moment = [], at(after)
    for _ in range(count):
        following = core.following(cron, timezone, moment)
        assert following is not None and following > moment
        moment = following
        found.append(shown(moment))
    return found


def test_the_first_time_is_the_one_after_now_never_now_itself() -> None:
    assert times("*/5 * * * *", "2026-01-01T00:00", 2, "UTC") == ["2026-01-01T00:05", "2026-01-01T00:10"]
    assert core.following("*/5 * * * *", "UTC", at("2026-01-01T00:05") - 1) == at("2026-01-01T00:05")


def test_a_time_of_day_follows_the_clock_of_its_zone() -> None:
    assert times("0 9 * * *", "2026-03-27T12:00", 3) == ["2026-03-28T08:00", "2026-03-29T07:00", "2026-03-30T07:00"]
    assert times("0 9 * * *", "2026-10-23T12:00", 3) == ["2026-10-24T07:00", "2026-10-25T08:00", "2026-10-26T08:00"]


def test_in_spring_a_time_that_does_not_exist_comes_when_the_hour_is_over() -> None:
    assert times("30 2 * * *", "2026-03-28T12:00", 2) == ["2026-03-29T01:00", "2026-03-30T00:30"]


def test_in_autumn_a_time_that_comes_twice_is_taken_once() -> None:
    assert times("30 2 * * *", "2026-10-24T12:00", 2) == ["2026-10-25T00:30", "2026-10-26T01:30"]


def test_in_autumn_what_goes_by_the_hour_comes_in_both_of_them() -> None:
    expected = ["2026-10-24T23:30", "2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"]
    assert times("30 * * * *", "2026-10-24T23:00", 4) == expected


def test_within_the_hour_that_comes_twice_the_next_time_lies_ahead() -> None:
    second_hour = at("2026-10-25T01:10")  # 02:10 in Berlin, for the second time
    assert shown(core.following("30 2 * * *", BERLIN, second_hour)) == "2026-10-26T01:30"


@pytest.mark.parametrize("missed", core.MISSED)
def test_before_its_time_nothing_happens_and_the_time_stays(missed: str) -> None:
    due = at("2026-01-01T12:00")
    assert core.fire(a_schedule("0 12 * * *", missed), due, due - 1) == core.Firing((), due)


@pytest.mark.parametrize("missed", core.MISSED)
def test_on_time_it_fires_once_for_that_time_whatever_the_policy(missed: str) -> None:
    due = at("2026-01-01T12:00")
    for late in (0, 1, 59 * SECOND):
        assert core.fire(a_schedule("0 12 * * *", missed), due, due + late) == core.Firing((due,), due + DAY)


def test_of_missed_times_once_takes_the_latest() -> None:
    due = at("2026-01-01T00:00")
    fired = core.fire(a_schedule("0 * * * *", ONCE), due, due + 10 * HOUR + 20 * MINUTE)
    assert fired == core.Firing((due + 10 * HOUR,), due + 11 * HOUR)


def test_of_missed_times_all_takes_each_in_order() -> None:
    due = at("2026-01-01T00:00")
    fired = core.fire(a_schedule("0 * * * *", ALL), due, due + 3 * HOUR)
    assert fired == core.Firing((due, due + HOUR, due + 2 * HOUR, due + 3 * HOUR), due + 4 * HOUR)


def test_all_is_bounded_to_the_latest() -> None:
    due, now = at("2026-01-01T00:00"), at("2026-02-01T00:00")
    fired = core.fire(a_schedule("* * * * *", ALL), due, now)
    assert len(fired.times) == MOST_MISSED and fired.times[-1] == now
    assert fired.times[0] == now - (MOST_MISSED - 1) * MINUTE


def test_skip_takes_none_but_the_one_that_is_on_time() -> None:
    due = at("2026-01-01T00:00")
    late = core.fire(a_schedule("0 * * * *", SKIP), due, due + 61 * SECOND)
    assert late == core.Firing((), due + HOUR)
    after_hours = core.fire(a_schedule("0 * * * *", SKIP), due, due + 5 * HOUR + SECOND)
    assert after_hours == core.Firing((due + 5 * HOUR,), due + 6 * HOUR)


@pytest.mark.parametrize("missed", [ONCE, ALL])
def test_a_time_is_not_lost_when_the_look_comes_in_the_hour_that_comes_twice(missed: str) -> None:
    due = at("2026-10-25T00:30")  # 02:30 in Berlin, for the first time
    fired = core.fire(a_schedule("30 2 * * *", missed, BERLIN), due, at("2026-10-25T01:10"))
    assert fired.times == (due,) and shown(fired.next_at) == "2026-10-26T01:30"


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/15 2 * * *", "30 * * * *", "0 */2 * * *", "15 1-4 * * *"])
@pytest.mark.parametrize("day", ["2026-03-28T12:00", "2026-10-24T12:00"])
def test_across_a_change_of_the_clock_late_and_early_lookers_fire_the_same_times(cron: str, day: str) -> None:
    schedule, end = a_schedule(cron, ALL, BERLIN), at(day) + 60 * HOUR
    due = core.following(cron, BERLIN, at(day))
    assert due is not None
    one_by_one, moment = [], due
    while moment <= end:
        fired = core.fire(schedule, moment, moment)
        one_by_one += list(fired.times)
        assert fired.next_at is not None
        moment = fired.next_at
    assert list(core.fire(schedule, due, end).times) == one_by_one
    assert len(set(one_by_one)) == len(one_by_one) > 1


@pytest.mark.parametrize("cron", ["", "* * * *", "61 * * * *", "often", "* * * * * * *", "0 0 30 2 *"])
def test_a_bad_expression_is_refused_with_what_would_be_right(cron: str) -> None:
    with pytest.raises(BadInput, match="minute, hour, day, month and weekday"):
        core.checked(NewSchedule("s", cron), 0)


def test_an_expression_that_never_comes_is_refused() -> None:
    with pytest.raises(BadInput, match="never comes"):
        core.checked(NewSchedule("s", "0 0 */32 2 MON#5"), 0)


@pytest.mark.parametrize("timezone", ["", "Mars/Olympus", "Europe", "../etc/passwd", "/etc/passwd", "a\0b"])
def test_an_unknown_zone_is_refused_with_an_example(timezone: str) -> None:
    with pytest.raises(BadInput, match="Europe/Berlin or UTC"):
        core.checked(NewSchedule("s", "* * * * *", timezone), 0)


def test_a_name_and_a_policy_must_make_sense() -> None:
    with pytest.raises(BadInput, match="not a name for a schedule"):
        core.checked(NewSchedule("a b", "* * * * *"), 0)
    with pytest.raises(BadInput, match="one of skip, once, all"):
        core.checked(NewSchedule("s", "* * * * *", missed="never"), 0)


def test_what_a_frame_declares_is_heard_and_rubbish_is_left_out() -> None:
    good = {"name": "s", "cron": "* * * * *", "timezone": "UTC", "missed": "all", "queue": "tag", "kind": "k",
            "payload_json": None, "priority": 2, "max_attempts": 5, "timeout": None}  # fmt: skip
    rubbish: list[object] = [
        None, [], {}, {**good, "name": 1}, {**good, "timeout": "1s"}, {**good, "max_attempts": 0},
        {**good, "priority": True}, {**good, "cron": "*" * 300}, {**good, "payload_json": "{}"},
        {**good, "timeout": 1 << 70},
    ]  # fmt: skip
    assert core.from_hello({"schedules": [*rubbish, good]}) == [
        NewSchedule("s", "* * * * *", "UTC", ALL, "tag", "k", None, 2, 5, None)
    ]
    assert core.from_hello({"schedules": "x"}) == core.from_hello({}) == []
