"""Records as documents and back, for a store and an API that share the records' own fields.

Both directions follow from the annotations of a record, so that the two sides cannot drift apart (decision 21):
instants are ISO 8601, durations are seconds, and JSON text is the value that it is. The nouns that people see have
documents of their own, of `rota.documents`; the functions at the end read these back.
"""

from __future__ import annotations

from rota.core.claim import Claim, Run
from rota.core.errors import StoreError
from rota.core.job import Job, Needed
from rota.core.jsontext import Raw, encode
from rota.core.record import Record
from rota.core.times import SECOND, format_instant, instant_of
from rota.core.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from rota.core.times import Duration, Instant

    Document = dict[str, Any]
    Converters = Mapping[str, Callable[[Any], Any]]
    R = TypeVar("R")
    K = TypeVar("K", bound=Record)

_JSON = "_json"
_BASIC = ("int", "str", "bool", "float")
_COLLECTIONS: dict[str, Callable[..., Any]] = {"tuple": tuple, "list": list, "frozenset": frozenset}
_fields: dict[type[Record], list[Field]] = {}
_machine_records: dict[str, type[Record]] = {}


class Field(Record):
    """A field as its annotation has it.

    `shown` is its name in a document, `kind` the name of the innermost type, `collection` that of the collection of it.
    """

    name: str
    shown: str
    kind: str
    collection: str
    is_json: bool
    may_be_none: bool

    @property
    def is_plain(self) -> bool:
        """Whether its value is the same in a document."""
        return self.kind in ("int", "str", "bool") and not self.collection and not self.is_json


def fields(kind: type[Record]) -> list[Field]:
    """Return the fields of a record, which are read once."""
    if kind not in _fields:
        _fields[kind] = [_field(name, str(kind.__annotations__[name])) for name in kind._fields]
    return _fields[kind]


def machine_records() -> Mapping[str, type[Record]]:
    """Return the records that an orchestrator and its store exchange, by their names."""
    if not _machine_records:
        # Only crews need these: a hot verb over HTTP does not pay for importing them.
        from rota.core.frames.assignment import Assignment
        from rota.core.frames.messages import Kinds
        from rota.core.schedule import NewSchedule
        from rota.core.slot import History, RestartPolicy
        from rota.store.claims.exchange import Exchange, Idle
        from rota.store.workers.crews import Directive, Home, PollResult, Process
        from rota.store.workers.death import Death
        from rota.store.workers.slots import Slot

        kinds: tuple[type[Record], ...] = (
            Kinds, RestartPolicy, History, Slot, Process, Home, Directive, PollResult, Death, Idle, Assignment,
            Exchange, NewSchedule,
        )  # fmt: skip
        _machine_records.update((kind.__name__, kind) for kind in kinds)
    return _machine_records


def to_document(record: Record, documents: Converters = {}) -> Document:  # noqa: B006 (nobody changes it)
    """Return a record as a document; `documents` writes the nouns in it that have documents of their own."""
    return {field.shown: _to_json(field, getattr(record, field.name), documents) for field in fields(type(record))}


def from_document(kind: type[K], document: Document, /, **read: Any) -> K:
    """Return the record that a document was made from; what the document leaves out has its default.

    Args:
        kind: The type of the record.
        document: The document, of this program or another; more fields than the record has do no harm.
        read: Fields that the caller has read itself, because the document shows something else.

    Raises:
        StoreError: The document does not fit.
    """
    try:
        for field in fields(kind):
            if field.name not in read and field.shown in document:
                read[field.name] = _from_json(field, document[field.shown])
        return kind(**read)
    except UNFIT as problem:
        raise unfit(document) from problem


UNFIT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


def unfit(document: object) -> StoreError:
    """Return the error for a document that does not fit: something else answers, or rota in another version."""
    return StoreError(
        f"this is not an answer of this rota's: is its version the same here and there? It says {document!r:.200}"
    )


def _field(name: str, annotation: str) -> Field:
    plain = annotation.removesuffix(" | None")
    collection, _, inner = plain.partition("[")
    kind = inner.removesuffix("]").removesuffix(", ...") if inner else plain
    is_json = name.endswith(_JSON)
    return Field(name, name.removesuffix(_JSON), kind, collection if inner else "", is_json, plain != annotation)


def _to_json(field: Field, value: Any, documents: Converters) -> Any:
    if value is None or field.is_plain:
        return value
    if field.is_json:
        return Raw(value)
    if not field.collection:
        return _one_to_json(field.kind, value, documents)
    # The order of a set differs from process to process.
    items = sorted(value) if field.collection == "frozenset" else value
    return [_one_to_json(field.kind, item, documents) for item in items]


def _one_to_json(kind: str, value: Any, documents: Converters) -> Any:
    convert = documents.get(kind) or _TO_JSON.get(kind)
    if convert is not None:
        return convert(value)
    return value if kind in _BASIC else to_document(value, documents)


def _from_json(field: Field, value: Any) -> Any:
    if value is None or field.is_plain:
        return value
    if field.is_json:
        return encode(value)
    if not field.collection:
        return _one_from_json(field.kind, value)
    return _COLLECTIONS[field.collection](_one_from_json(field.kind, item) for item in value)


def _one_from_json(kind: str, value: Any) -> Any:
    if kind in _FROM_JSON:
        return _FROM_JSON[kind](value)
    return value if kind in _BASIC else from_document(machine_records()[kind], value)


def fitting(read: Callable[[Document], R]) -> Callable[[Document], R]:
    """Let a function that reads a document raise a `StoreError` for one that does not fit."""

    def read_fitting(document: Document) -> R:
        try:
            return read(document)
        except UNFIT as problem:
            raise unfit(document) from problem

    return read_fitting


@fitting
def job(document: Document) -> Job:
    """Return a job whose document has its details."""
    # `dependents` and `due_wall` stay with the store.
    return from_document(
        Job, {**document, **document["details"]}, kind=document["kind"] or "", dependents=0, due_wall=0
    )


def needed(document: Document) -> Needed:
    """Return a job that another waited for."""
    return from_document(Needed, document)


def claim(document: Document) -> Claim:
    """Return a claim."""
    return from_document(Claim, document)


def claim_of(job: Job) -> Claim:
    """Return the live claim on a job."""
    assert job.token is not None and job.worker_id is not None
    return Claim(job.id, job.token, job.worker_id, job.claimed_at or 0, job.lease_expires_at, job.renewed_count)


def run(document: Document) -> Run:
    """Return what one claim did."""
    return from_document(Run, document)


@fitting
def worker(document: Document) -> Worker:
    """Return a worker whose document has its details."""
    metadata = encode(document["metadata"]) if document["metadata"] else None
    return from_document(Worker, {**document, **document["details"]}, metadata_json=metadata)


def at(text: str | None) -> Instant | None:
    """Return the instant of a document."""
    return None if text is None else instant_of(text)


def text(value: object) -> str | None:
    """Return a value as the JSON text that the store keeps."""
    return None if value is None else encode(value)


def duration(seconds: float | None) -> Duration | None:
    """Return the duration of a document."""
    return None if seconds is None else round(seconds * SECOND)


def seconds(duration: Duration | None) -> float | None:
    """Return a duration as a document has it."""
    return None if duration is None else duration / SECOND


_TO_JSON: Converters = {"Instant": format_instant, "Duration": lambda duration: duration / SECOND}
_FROM_JSON: Converters = {
    "Instant": instant_of,
    "Duration": lambda seconds: round(seconds * SECOND),
    "Run": run,
    "Job": job,
}
