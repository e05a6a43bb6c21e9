"""What an orchestrator and its store tell each other over HTTP: a record as a document, and back.

Both follow from the record's own fields, so that the two sides cannot drift apart: instants are told in ISO 8601,
durations in seconds, and JSON text as the value that it is.
"""

from __future__ import annotations

from rota.core.frames import outcomes
from rota.core.frames.assignment import Assignment
from rota.core.frames.messages import Kinds
from rota.core.jsontext import Raw, encode
from rota.core.record import Record
from rota.core.restart import RestartPolicy
from rota.core.schedule import NewSchedule
from rota.core.slot import History
from rota.core.times import SECOND, format_instant, instant_of
from rota.store.claims.exchange import Exchange, Idle
from rota.store.remote import records
from rota.store.workers.crews import Directive, Home, PollResult, Process
from rota.store.workers.death import Death
from rota.store.workers.slots import Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from rota.store.claims.exchange import Checkpoint, Report, Settled

    Document = dict[str, Any]
    Ways = Mapping[str, Callable[[Any], Any]]
    R = TypeVar("R", bound=Record)

KNOWN: dict[str, type[Record]] = {
    kind.__name__: kind
    for kind in (
        Kinds,
        RestartPolicy,
        History,
        Slot,
        Process,
        Home,
        Directive,
        PollResult,
        Death,
        Idle,
        Assignment,
        Exchange,
        NewSchedule,
    )
}
LARGEST = 800_000  # bytes of what was reported, in a body
_TELL: Ways = {"Instant": format_instant, "Duration": lambda duration: duration / SECOND}
_HEAR: Ways = {
    "Instant": instant_of,
    "Duration": lambda seconds: round(seconds * SECOND),
    "Run": records.run,
    "Job": records.job,
}
_JSON = "_json"
_MANY: dict[str, Callable[..., Any]] = {"tuple": tuple, "list": list, "frozenset": frozenset}
_read: dict[type[Record], list[Field]] = {}


class Field(Record):
    """A field as its annotation has it. `said` is its name in a document, `kind` the name of the innermost type."""

    name: str
    said: str
    kind: str
    many: str
    is_json: bool
    may_be_none: bool


def fields(kind: type[Record]) -> list[Field]:
    """The fields of a record, read once."""
    if kind not in _read:
        _read[kind] = [_field(name, str(kind.__annotations__[name])) for name in kind._fields]
    return _read[kind]


def told(record: Record, ways: Ways = {}) -> Document:  # noqa: B006 (nobody changes it)
    """A record as a document; `ways` tells what has a document of its own."""
    return {field.said: _tell(field, getattr(record, field.name), ways) for field in fields(type(record))}


def heard(kind: type[R], document: Document) -> R:
    """The record that a document was made of; what it leaves out has its default."""
    try:
        given = {field.name: _hear(field, document[field.said]) for field in fields(kind) if field.said in document}
        return kind(**given)
    except records.UNFIT as problem:
        raise records.unfit(document) from problem


def _field(name: str, annotation: str) -> Field:
    plain = annotation.removesuffix(" | None")
    many, _, inner = plain.partition("[")
    kind = inner.removesuffix("]").removesuffix(", ...") if inner else plain
    is_json = name.endswith(_JSON)
    return Field(name, name.removesuffix(_JSON), kind, many if inner else "", is_json, plain != annotation)


def _tell(field: Field, value: Any, ways: Ways) -> Any:
    if value is None or (field.kind in ("int", "str", "bool") and not field.many and not field.is_json):
        return value
    if field.is_json:
        return Raw(value)
    way = (
        ways.get(field.kind) or _TELL.get(field.kind) or ((lambda it: told(it, ways)) if field.kind in KNOWN else None)
    )
    if field.many:
        items = sorted(value) if field.many == "frozenset" else value
        return list(items) if way is None else [way(each) for each in items]
    return value if way is None else way(value)


def _hear(field: Field, value: Any) -> Any:
    if value is None or (field.kind in ("int", "str", "bool") and not field.many and not field.is_json):
        return value
    if field.is_json:
        return encode(value)
    known = KNOWN.get(field.kind)
    way = _HEAR.get(field.kind) or ((lambda it: heard(known, it)) if known else None)
    if field.many:
        return _MANY[field.many](value if way is None else map(way, value))
    return value if way is None else way(value)


def parcels(report: Report) -> list[Document]:
    """What workers reported, in as few bodies as take it; at least one, and the last is for more beside it."""
    found: list[Document] = [{}]
    size = 0
    for name, each in [
        *(("outcomes", _settled(each)) for each in report.outcomes),
        *(("checkpoints", _kept(each)) for each in report.checkpoints),
    ]:
        weight = len(encode(each).encode())
        if size and size + weight > LARGEST:
            found.append({})
            size = 0
        size += weight
        found[-1].setdefault(name, []).append(each)
    return found


def _settled(each: Settled) -> Document:
    job, token, outcome = each
    return {"job_id": job, "token": token, **outcomes.encode(outcome)}


def _kept(each: Checkpoint) -> Document:
    text, job, token = each
    return {"job_id": job, "token": token, "value": Raw(text)}
