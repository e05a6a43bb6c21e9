"""Types made of the records that they tell, for what goes between an orchestrator elsewhere and its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rota.api.schemas import fields as field_types
from rota.api.schemas import nouns
from rota.api.schemas.fields import Id, QueueName, Text, Whole, Word, WorkerId
from rota.api.schemas.nouns import Answer
from rota.api.schemas.requests import Request
from rota.core import death
from rota.core.record import Record
from rota.core.schedule import NewSchedule
from rota.core.times import SECOND
from rota.store.claims.exchange import Assignment, Idle
from rota.store.remote.carried import KNOWN, fields
from rota.store.workers.crews import Home, Poll, Process
from rota.store.workers.death import Death
from rota.store.workers.slots import Slot

Pid = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
SlotName = Annotated[str, Meta(min_length=1, max_length=100)]
_PLAIN: dict[str, Any] = {
    "int": int, "str": str, "bool": bool, "Instant": field_types.Moment, "Duration": float, "Run": nouns.Run,
    "Job": nouns.Job,
}  # fmt: skip
_BOUNDED: dict[str, Any] = {"int": Whole, "str": Text, "bool": bool, "Duration": Annotated[float, Meta(ge=0, le=1e9)]}
_CALLED = {"Slot": "CrewSlot", "Death": "WitnessedDeath"}  # those of that name are what people see of them
_made: dict[tuple[type[Record], Any], Any] = {}


def derived(record: type[Record], base: Any, **narrower: Any) -> Any:
    """The type of a record's document. A request's is bounded, and `narrower` says more than an annotation can."""
    if (record, base) in _made:
        return _made[record, base]
    found: list[Any] = []
    for field in fields(record):
        inner = narrower.get(field.name) or _type(field.kind, base)
        kind: Any = Any if field.is_json else list.__class_getitem__(inner) if field.many else inner
        if field.many and base is Request:
            kind = Annotated[kind, Meta(max_length=1000)]
        kind = kind | None if field.may_be_none else kind
        has_default = field.name not in record._needed and base is Request
        found.append((field.said, kind, _default(record, field.name)) if has_default else (field.said, kind))
    made = msgspec.defstruct(
        _CALLED.get(record.__name__, record.__name__),
        found,
        bases=(base,),
        namespace={"__doc__": record.__doc__},
        kw_only=True,
        module=__name__,
    )
    _made[record, base] = made
    return made


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
    HomeTold = Any
    DeathTold = Any
    Policy = Any
    AssignmentDocument = Any
    ProcessTold = Any
    SlotTold = Any
    PollDocument = Any
    ScheduleTold = Any
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
    HomeTold = derived(
        Home, Request, host=Annotated[str, Meta(min_length=1, max_length=200)],
        hostname=Annotated[str, Meta(min_length=1, max_length=253)], pid=Pid,
    )  # fmt: skip
    DeathTold = derived(
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
    AssignmentDocument, ProcessTold, SlotTold = (
        derived(Assignment, Answer),
        derived(Process, Answer),
        derived(Slot, Answer),
    )
    PollDocument = derived(Poll, Answer)
    ScheduleTold = derived(
        NewSchedule,
        Request,
        name=QueueName,
        cron=Annotated[str, Meta(min_length=1, max_length=200)],
        timezone=Word,
        missed=field_types.Missed,
        queue=QueueName,
        kind=Word,
        priority=field_types.Priority,
        max_attempts=field_types.Count,
        timeout=field_types.Seconds,
    )
