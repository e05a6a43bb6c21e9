"""Events: what one transaction changed, as typed facts, and the codec of their stored form.

A fact is stored as a JSON list, which only this module reads and writes (and the SQL that enqueues in one statement on
PostgreSQL):

    ["job", verb, queue, old, new, ids]             jobs of one queue made the same move
    ["job", verb, queue, old, new, ids, details]
    [noun, verb, subject, details]                  anything else changed
"""

from __future__ import annotations

from rota.core.jsontext import compact
from rota.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from rota.core.times import Instant

    KnownFact = TypeVar("KnownFact", bound="JobMoved | Changed")


class Event(Record):
    """What one transaction changed. `cursor` is opaque: pass it back to read on from here."""

    cursor: str
    at: Instant
    actor: str
    facts: Sequence[Fact]

    @property
    def number(self) -> int:
        """The number of the event. Unlike its cursor, it does not depend on how the event was read."""
        return int(self.cursor.rpartition("/")[2])

    @property
    def just_before(self) -> str:
        """A cursor after which this event is the next, whatever was committed since."""
        head, slash, number = self.cursor.rpartition("/")
        return f"{head}{slash}{int(number) - 1}"

    def of(self, kind: type[KnownFact], *verbs: str) -> list[KnownFact]:
        """Return the facts of one kind: those with one of these verbs, or all."""
        return [fact for fact in self.facts if isinstance(fact, kind) and (not verbs or fact.verb in verbs)]


class JobMoved(Record):
    """Jobs of one queue made the same move. `old` is None for added jobs, `new` for jobs that were pruned."""

    verb: str
    queue: str
    old: str | None
    new: str | None
    ids: Sequence[int]
    details: Mapping[str, Any] = {}


class Changed(Record):
    """Something that is not a job's state changed. `subject` is its name or id."""

    noun = ""
    verb: str
    subject: str
    details: Mapping[str, Any]


class JobChanged(Changed):
    """A job changed, but not its state."""

    noun = "job"

    @property
    def id(self) -> int:
        return int(self.subject)


class QueueChanged(Changed):
    """A queue changed, or all queues: then `subject` is `ALL`."""

    noun = "queue"


class WorkerChanged(Changed):
    """A worker changed."""

    noun = "worker"


class SlotChanged(Changed):
    """A slot changed, or its worker's health."""

    noun = "slot"


class OrchestratorChanged(Changed):
    """An orchestrator changed."""

    noun = "orchestrator"


class SourceChanged(Changed):
    """A source changed."""

    noun = "source"


class ScheduleChanged(Changed):
    """A schedule changed."""

    noun = "schedule"


class TokenChanged(Changed):
    """An access token changed."""

    noun = "token"


class StoreChanged(Changed):
    """The store itself changed."""

    noun = "store"


class OtherChanged(Record):
    """Something changed that only a later version knows."""

    noun: str
    verb: str
    subject: str
    details: Mapping[str, Any]


class UnknownFact(Record):
    """A fact in a form of a later version. Readers of states must begin anew, because they do not know what changed."""

    stored: Any


if TYPE_CHECKING:
    NounChanged = (
        JobChanged
        | QueueChanged
        | WorkerChanged
        | SlotChanged
        | OrchestratorChanged
        | SourceChanged
        | ScheduleChanged
        | TokenChanged
        | StoreChanged
        | OtherChanged
    )
    Fact = JobMoved | NounChanged | UnknownFact

_BY_NOUN = {
    kind.noun: kind
    for kind in (
        JobChanged,
        QueueChanged,
        WorkerChanged,
        SlotChanged,
        OrchestratorChanged,
        SourceChanged,
        ScheduleChanged,
        TokenChanged,
        StoreChanged,
    )
}


def change(noun: str, verb: str, subject: str, details: Mapping[str, Any]) -> NounChanged:
    """Return the fact that something of this noun changed."""
    kind = _BY_NOUN.get(noun)
    return OtherChanged(noun, verb, subject, details) if kind is None else kind(verb, subject, details)


def encode(facts: Iterable[Fact]) -> str:
    """Return the stored text of an event's facts."""
    return compact([to_stored(fact) for fact in facts])


def decode(text: str) -> list[Fact]:
    """Return the facts of a stored text."""
    import json  # The hot verbs write events and read none.

    return [from_stored(stored) for stored in json.loads(text)]


def to_stored(fact: Fact) -> Sequence[Any]:
    """Return the stored list of a fact."""
    match fact:
        # No `assert_never`: the hot verbs import this module, and `typing` is slow. mypy still reports a missing case.
        case JobMoved(verb, queue, old, new, ids, details):
            move = ("job", verb, queue, old, new, ids)
            return (*move, details) if details else move
        case UnknownFact(stored):
            return stored  # type: ignore[no-any-return]
        case Changed() | OtherChanged():
            return fact.noun, fact.verb, fact.subject, fact.details


def from_stored(stored: Any) -> Fact:
    """Return the fact of a stored list. No list is refused: a later version may have written it."""
    match stored:
        case ["job", str(verb), str(queue), old, new, list(ids)]:
            return JobMoved(verb, queue, old, new, ids)
        case ["job", str(verb), str(queue), old, new, list(ids), dict(details)]:
            return JobMoved(verb, queue, old, new, ids, details)
        # A noun that only a later version knows has the same form.
        case [str(noun), str(verb), str(subject), dict(details)]:
            return change(noun, verb, subject, details)
    return UnknownFact(stored)
