"""Schedules: when one is due by the wall clock of its time zone, and for which times it adds jobs (decision 24)."""

from __future__ import annotations

from rota.core.errors import BadInput
from rota.core.ids import queue_name
from rota.core.record import Record
from rota.core.source import KIND
from rota.core.times import MINUTE, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import Any

    from rota.core.times import Duration, Instant

SKIP, ONCE, ALL = "skip", "once", "all"
MISSED = (SKIP, ONCE, ALL)
UTC = "UTC"
ON_TIME: Duration = MINUTE  # how late a job of a schedule that skips missed times may be added
MOST_MISSED = 100
MOST_DECLARED = 1000
LONGEST_CRON = 200
LARGEST = 1 << 53


class NewSchedule(Record):
    """A schedule to add: when it is due, what becomes of missed times, and the job that it adds."""

    name: str
    cron: str
    timezone: str = UTC
    missed: str = ONCE
    queue: str = "default"
    kind: str = ""
    payload_json: str | None = None
    priority: int = 0
    max_attempts: int | None = None
    timeout: Duration | None = None


class Schedule(Record):
    """A schedule as the store has it.

    `next_at` and `last_at` are times that its cron expression names, by the wall clock. `declared` is true if an
    application declared it. `fired_at` is when its last job was added, `last_status` the status of that job.
    """

    name: str
    cron: str
    timezone: str
    missed: str
    queue: str
    kind: str
    payload_json: str | None
    priority: int
    max_attempts: int | None
    timeout: Duration | None
    declared: int
    next_at: Instant | None
    last_at: Instant | None
    fired_at: Instant | None
    fired_count: int
    last_job: int | None
    error: str | None
    paused_at: Instant | None
    pause_reason: str | None
    last_status: str | None = None

    @property
    def new(self) -> NewSchedule:
        return NewSchedule(*(getattr(self, name) for name in NewSchedule._fields))


class Firing(Record):
    """The times for which a job is added now, oldest first, and when the schedule is due next."""

    times: tuple[Instant, ...]
    next_at: Instant | None


def checked(new: NewSchedule, now: Instant) -> NewSchedule:
    """Return a new schedule unchanged.

    Raises:
        BadInput: A field is not valid, or the schedule would never be due.
    """
    try:
        queue_name(new.name)
    except BadInput:
        raise BadInput(f"{new.name!r} is not a name for a schedule: letters, digits, '_', '-' and '.'") from None
    queue_name(new.queue)
    if new.missed not in MISSED:
        raise BadInput(f"schedule {new.name}: missed is one of {', '.join(MISSED)}, not {new.missed!r}")
    if new.kind.startswith(KIND):
        raise BadInput(f"{new.kind!r} is no kind for a job: those that begin with {KIND} are rota's own")
    if following(new.cron, new.timezone, now) is None:
        raise BadInput(f"{new.cron!r} never comes: no day in the next 50 years is such a one")
    return new


def fire(schedule: Schedule, next_at: Instant, now: Instant) -> Firing:
    """Decide what a schedule that was due at `next_at` does now; a time is never fired before it, nor twice.

    Of the times that have come, `once` takes the latest, `all` each of the latest hundred, and `skip` the latest if it
    is on time.
    """
    if now < next_at:
        return Firing((), next_at)
    most = MOST_MISSED if schedule.missed == ALL else 1
    times: list[Instant] = []
    for time in _ticks(schedule.cron, schedule.timezone, now + SECOND, back=True):
        if time <= next_at or len(times) == most:
            break
        if time <= now:
            times.append(time)
    if len(times) < most:
        # Named when the schedule was due last, so it is kept even if the rules of its zone have changed since.
        times.append(next_at)
    if schedule.missed == SKIP and now - times[0] > ON_TIME:
        times = []
    return Firing(tuple(reversed(times)), following(schedule.cron, schedule.timezone, now))


def following(cron: str, timezone: str, after: Instant) -> Instant | None:
    """Return the first time after an instant; None if there is none.

    Raises:
        BadInput: The cron expression or the time zone is not valid.
    """
    for time in _ticks(cron, timezone, after):
        # In the hour that comes twice when clocks go back, a time of day may lie behind.
        if time > after:
            return time
    return None


def _ticks(cron: str, timezone: str, start: Instant, back: bool = False) -> Iterator[Instant]:
    from datetime import datetime, timedelta

    from cronsim import CronSim, CronSimError

    zone = _zone(timezone)
    begin = datetime(1970, 1, 1, tzinfo=zone("UTC"))
    moment = (begin + timedelta(microseconds=start)).astimezone(zone(timezone))
    try:
        simulated = CronSim(cron, moment, reverse=back)
    except (CronSimError, ValueError) as problem:
        # A number of thousands of digits is a ValueError of Python's own.
        raise BadInput(
            f"{cron!r:.200} is not a cron expression ({str(problem).lower()}): write five fields, minute, hour, day,"
            " month and weekday, or six with seconds before them, such as '*/5 * * * *' or '0 9 * * MON-FRI'"
        ) from None

    def instant(moment: datetime) -> Instant:
        return (moment - begin) // timedelta(microseconds=1)

    return map(instant, simulated)


def _zone(timezone: str) -> Any:
    """Return the class of time zones, once it is known to have this one."""
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise BadInput(
            f"{timezone!r} is not a time zone that this machine knows: write for example Europe/Berlin or UTC"
        ) from None
    return ZoneInfo


def from_hello(body: dict[str, Any]) -> list[NewSchedule]:
    """Return the schedules that a HELLO frame declares.

    Any program may be on the pipe, so schedules that are not valid are left out.
    """
    documents = body.get("schedules")
    valid: list[dict[str, Any]] = [
        document
        for document in (documents[:MOST_DECLARED] if isinstance(documents, list) else ())
        if isinstance(document, dict) and _fits(document)
    ]
    fields = NewSchedule._fields
    return [NewSchedule(**{name: document[name] for name in fields if name in document}) for document in valid]


def _fits(document: dict[str, Any]) -> bool:
    texts = [document.get(name) for name in ("name", "cron", "timezone", "missed", "queue", "kind")]
    numbers = [document[name] for name in ("max_attempts", "timeout") if document.get(name) is not None]
    return (
        all(isinstance(text, str) and len(text) <= LONGEST_CRON for text in texts)
        and all(type(number) is int and 0 < number < LARGEST for number in numbers)
        and type(document.get("priority")) is int
        and document.get("payload_json") is None
    )
