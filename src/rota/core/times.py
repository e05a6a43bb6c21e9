"""Instants are integer microseconds since 1970 UTC, durations integer microseconds; here both are read and written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rota.core.errors import BadInput

Instant = int
Duration = int

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST = 36_500 * DAY


def parse_duration(text: str, bare: Duration | None = None) -> Duration:
    """`90s`, `2h`, `1h30m`, `1.5h`; a bare number counts in `bare`, or is refused where none is given."""
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
        if total + amount > _LONGEST:
            raise BadInput(f"{text!r} is too long: at most {_LONGEST // DAY} days")
        total += round(amount)
    return total


def _split(text: str, letters: str) -> tuple[str, str]:
    rest = text.lstrip(letters)
    return text[: len(text) - len(rest)], rest


def _bad_duration(text: str, bare: Duration | None) -> BadInput:
    default = " (a bare number is minutes)" if bare == MINUTE else ""
    return BadInput(f"{text!r} is not a duration: write for example 90s, 30m or 2h{default}")


def format_duration(duration: Duration) -> str:
    """The shortest text for people: `1.5s`, `30m`, `2h5m`."""
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
    """ISO 8601 in UTC with `Z`, as on the wire."""
    return (_EPOCH + timedelta(microseconds=instant)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_instant(text: str, now: Instant) -> Instant:
    """ISO 8601 (UTC unless it says otherwise), or `+30m` from now."""
    if text.startswith("+"):
        return now + parse_duration(text[1:])
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{text!r} is not a time: write for example 2026-12-01T09:00Z or +30m") from None
    return (moment - _EPOCH) // timedelta(microseconds=1)
