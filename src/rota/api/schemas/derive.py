"""Types derived from the store's records, for the requests of orchestrators that reach only the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rota.api.schemas import nouns, requests
from rota.api.schemas.nouns import Answer
from rota.api.schemas.requests import Id, NonNegative, QueueName, Request, ShortText, Text, WorkerId
from rota.core import death
from rota.core.record import Record
from rota.core.schedule import NewSchedule
from rota.core.times import SECOND
from rota.store.claims.exchange import Assignment, Idle
from rota.store.remote.carried import KNOWN, fields
from rota.store.workers.crews import Home, PollResult, Process
from rota.store.workers.death import Death
from rota.store.workers.slots import Slot

Pid = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
SlotName = Annotated[str, Meta(min_length=1, max_length=100)]
_PLAIN: dict[str, Any] = {
    "int": int, "str": str, "bool": bool, "Instant": requests.Timestamp, "Duration": float, "Run": nouns.Run,
    "Job": nouns.Job,
}  # fmt: skip
_BOUNDED: dict[str, Any] = {
    "int": NonNegative,
    "str": Text,
    "bool": bool,
    "Duration": Annotated[float, Meta(ge=0, le=1e9)],
}
# The names Slot and Death belong to the documents shown to people.
_NAMES = {"Slot": "CrewSlot", "Death": "WitnessedDeath"}
_derived: dict[tuple[type[Record], Any], Any] = {}


def derived(record: type[Record], base: Any, **narrower: Any) -> Any:
    """Return the type of a record's document. Requests are bounded; `narrower` overrides types of fields."""
    if (record, base) in _derived:
        return _derived[record, base]
    definitions: list[Any] = []
    for field in fields(record):
        inner = narrower.get(field.name) or _type(field.kind, base)
        kind: Any = Any if field.is_json else list.__class_getitem__(inner) if field.many else inner
        if field.many and base is Request:
            kind = Annotated[kind, Meta(max_length=1000)]
        kind = kind | None if field.may_be_none else kind
        has_default = field.name not in record._needed and base is Request
        definitions.append((field.said, kind, _default(record, field.name)) if has_default else (field.said, kind))
    struct = msgspec.defstruct(
        _NAMES.get(record.__name__, record.__name__),
        definitions,
        bases=(base,),
        namespace={"__doc__": record.__doc__},
        kw_only=True,
        module=__name__,
    )
    _derived[record, base] = struct
    return struct


def _type(kind: str, base: Any) -> Any:
    if kind in KNOWN:
        return derived(KNOWN[kind], base)
    return _BOUNDED[kind] if base is Request and kind in _BOUNDED else _PLAIN[kind]


def _default(record: type[Record], name: str) -> Any:
    value = getattr(record, name)
    if isinstance(value, Record):
        return msgspec.field(default_factory=_type(type(value).__name__, Request))
    if isinstance(value, frozenset | tuple):
        return msgspec.field(default_factory=list)
    return value / SECOND if record.__annotations__[name] == "Duration" else value


if TYPE_CHECKING:
    Reason = str
    IdleWorker = Any
    HomeSchema = Any
    DeathSchema = Any
    Policy = Any
    HandoutSchema = Any
    ProcessSchema = Any
    SlotSchema = Any
    PollResultSchema = Any
    ScheduleSchema = Any
else:
    Reason = Literal[death.REASONS]
    IdleWorker = derived(
        Idle,
        Request,
        worker_id=WorkerId,
        queue=QueueName,
        room=Annotated[int, Meta(ge=0, le=1000)],
        held=Annotated[int, Meta(ge=0, le=1000)],
    )
    HomeSchema = derived(
        Home, Request, host=Annotated[str, Meta(min_length=1, max_length=200)],
        hostname=Annotated[str, Meta(min_length=1, max_length=253)], pid=Pid,
    )  # fmt: skip
    DeathSchema = derived(
        Death,
        Request,
        worker_id=WorkerId,
        slot=SlotName,
        reason=Reason,
        exit_code=Annotated[int, Meta(ge=0, le=255)],
        signal=Annotated[int, Meta(ge=1, le=128)],
        overdue=Id,
    )
    Policy = derived(KNOWN["RestartPolicy"], Request)
    HandoutSchema, ProcessSchema, SlotSchema = (
        derived(Assignment, Answer),
        derived(Process, Answer),
        derived(Slot, Answer),
    )
    PollResultSchema = derived(PollResult, Answer)
    ScheduleSchema = derived(
        NewSchedule,
        Request,
        name=QueueName,
        cron=Annotated[str, Meta(min_length=1, max_length=200)],
        timezone=ShortText,
        missed=requests.Missed,
        queue=QueueName,
        kind=ShortText,
        priority=requests.Priority,
        max_attempts=requests.Count,
        timeout=requests.Seconds,
    )
