"""Instants and durations, and their text forms: both are integer microseconds, instants since 1970 in UTC."""

from __future__ import annotations

from rota.core.errors import BadInput

Instant = int
Duration = int

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
LONGEST: Duration = 36_500 * DAY
FIRST: Instant = -62_135_596_800 * SECOND  # years 1 to 9999: the instants that ISO 8601 writes with four digits
LAST: Instant = 253_402_300_800 * SECOND - 1


def parse_duration(text: str, bare: Duration | None = None) -> Duration:
    """Read a duration such as `90s`, `2h`, `1h30m` or `1.5h`.

    Args:
        text: The duration.
        bare: The unit of a number without one. Without it such a number is refused.

    Raises:
        BadInput: This is not a duration, or it is too long.
    """
    rest, total = text.strip().lower(), 0
    if not rest:
        raise _bad_duration(text, bare)
    while rest:
        number, rest = _split(rest, "0123456789.")
        unit, rest = _split(rest, "abcdefghijklmnopqrstuvwxyz")
        size = _UNITS.get(unit) if unit else bare
        if not number or size is None or number.count(".") > 1 or number == ".":
            raise _bad_duration(text, bare)
        amount = float(number) * size
        if total + amount > LONGEST:
            raise BadInput(f"{text!r} is too long: at most {LONGEST // DAY} days")
        total += round(amount)
    return total


def _split(text: str, letters: str) -> tuple[str, str]:
    rest = text.lstrip(letters)
    return text[: len(text) - len(rest)], rest


def _bad_duration(text: str, bare: Duration | None) -> BadInput:
    default = " (a bare number is minutes)" if bare == MINUTE else ""
    return BadInput(f"{text!r} is not a duration: write for example 90s, 30m or 2h{default}")


def format_duration(duration: Duration) -> str:
    """Return a duration as a short text for people: `1.5s`, `30m`, `2h5m`."""
    if duration < SECOND:
        return f"{min(duration / MILLISECOND, 999):.3g}ms" if duration else "0s"
    if duration < MINUTE:
        return f"{duration / SECOND:.3g}s"
    parts = []
    for unit, size in (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)):
        count, duration = divmod(duration, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def format_instant(instant: Instant) -> str:
    """Return an instant in ISO 8601, in UTC with `Z`, as JSON documents have it.

    By hand, because `datetime` takes long to import (decision 5).
    """
    days, rest = divmod(instant, DAY)
    # An estimate by the average length of a year, which is off by one at most.
    year = 1970 + days * 400 // 146_097
    while _days_until(year) > days:
        year -= 1
    while _days_until(year + 1) <= days:
        year += 1
    month, day = _month_and_day(year, days - _days_until(year))
    seconds, micros = divmod(rest, SECOND)
    return f"{year:04}-{month:02}-{day:02}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}Z"


def instant_of(text: str) -> Instant:
    """Return the instant of a text that `format_instant` wrote."""
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    days = _days_until(year) + sum(_MONTHS[: month - 1]) + (month > 2 and _is_leap(year)) + day - 1
    seconds = int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
    return days * DAY + seconds * SECOND + int(text[20:26])


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days_until(year: int) -> int:
    """Return the days from 1970 to the first of January of a year."""
    past = year - 1
    return 365 * (year - 1970) + past // 4 - past // 100 + past // 400 - 477


def _month_and_day(year: int, day: int) -> tuple[int, int]:
    month = 0
    while day >= _MONTHS[month] + (month == 1 and _is_leap(year)):
        day -= _MONTHS[month] + (month == 1 and _is_leap(year))
        month += 1
    return month + 1, day + 1


def parse_instant(text: str, now: Instant) -> Instant:
    """Read an instant in ISO 8601, in UTC unless it names another zone, or relative to now such as `+30m`.

    Raises:
        BadInput: This is neither.
    """
    if text.startswith("+"):
        return now + parse_duration(text[1:])
    from datetime import UTC, datetime, timedelta

    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{text!r} is not a time: write for example 2026-12-01T09:00Z or +30m") from None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
