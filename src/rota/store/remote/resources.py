"""Queues, slots, sources, schedules, events, history and tokens over the API."""

from __future__ import annotations

from rota.core.access import AccessToken
from rota.core.errors import Refused
from rota.core.event import Event, from_stored
from rota.core.queue import Queue
from rota.core.schedule import Schedule, checked
from rota.core.source import Source
from rota.store.events import Events
from rota.store.maintenance.prune import History, Pruned, Stride
from rota.store.maintenance.schedules import Schedules
from rota.store.queues import Queues, QueueStatus
from rota.store.remote import records
from rota.store.remote.client import Port, quoted
from rota.store.remote.records import fitting, from_document, to_document
from rota.store.sources import Sources, SourceStatus
from rota.store.tokens import Tokens
from rota.store.workers.slots import Slot, Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rota.core.job import Job
    from rota.core.schedule import NewSchedule
    from rota.core.source import Declared
    from rota.core.times import Duration
    from rota.store.remote.records import Document

    class _Queues(Queues, Port): ...

    class _Slots(Slots, Port): ...

    class _Sources(Sources, Port): ...

    class _Schedules(Schedules, Port): ...

    class _Events(Events, Port): ...

    class _Tokens(Tokens, Port): ...

    class _History(History, Port): ...
else:
    _Queues = _Slots = _Sources = _Schedules = _Events = _Tokens = _History = Port


class RemoteQueues(_Queues):
    """The port for queues."""

    def is_open(self, name: str | None = None) -> bool:
        if name is not None:
            for status in self.list():
                if status.queue.name == name:
                    return status.paused_by is None
        return bool(self._link.get("/info")["worker_enabled"])

    def get(self, name: str) -> Queue:
        return _queue(self._link.get(f"/queues/{quoted(name)}")).queue

    def set(self, name: str, **limits: object) -> Queue:
        return _queue(self._link.send("PATCH", f"/queues/{quoted(name)}", limits)).queue

    def pause(self, name: str | None = None, reason: str | None = None) -> list[str]:
        paused: list[str] = self._link.post("/queues/pause", {"queue": name, "reason": reason})["paused"]
        return paused

    def resume(self, name: str | None = None) -> list[str]:
        resumed: list[str] = self._link.post("/queues/resume", {"queue": name})["resumed"]
        return resumed

    def counts(self) -> dict[str, dict[str, int]]:
        return {status.queue.name: status.counts for status in self.list()}

    def list(self) -> list[QueueStatus]:
        return [_queue(document) for document in self._link.get("/queues")]


class RemoteSlots(_Slots):
    """The port for slots. If no crew of this host has that name, this host means the host of the API."""

    def take(self, crew: str, host: str, pools: Mapping[str, int]) -> list[Slot]:
        return [slot for slot in self._own(dict(pools)) if slot.wanted]

    def of_crew(self, crew: str, host: str) -> list[Slot]:
        if self._remote.orchestrator:
            return self._own(None)
        place = (crew, self._remote.orchestrators.named(crew, host) or host)
        return [slot for slot in self.all() if (slot.crew, slot.host) == place]

    def all(self) -> list[Slot]:
        return [from_document(Slot, document["details"]) for document in self._link.get("/slots", details=True)]

    def why(self, name: str) -> str:
        return str(self._link.get(f"/slots/{quoted(name)}/why")["why"])

    def reset(self, name: str, forget: bool = False) -> None:
        self._link.post(f"/slots/{quoted(name)}/reset", {"forget": forget})

    def scale(self, crew: str, host: str, queue: str, count: int) -> None:
        body = {"crew": crew, "host": self._remote.orchestrators.named(crew, host), "count": count}
        self._link.post(f"/queues/{quoted(queue)}/scale", body)

    def _own(self, pools: dict[str, int] | None) -> list[Slot]:
        """Return the slots of the orchestrator that this program is."""
        documents = self._link.post(f"/orchestrators/{self._remote.orchestrator}/slots", {"pools": pools})
        return [from_document(Slot, document) for document in documents]


class RemoteSources(_Sources):
    """The port for sources; they are filled by the workers of an orchestrator."""

    def declare(self, declared: Sequence[Declared]) -> None:
        # To look for work, a worker needs the database (decision 21).
        names = ", ".join(sorted(source.name for source in declared))
        raise Refused(
            f"a crew over HTTP cannot look for work in sources ({names}): start one of this app where the database is"
        )

    def get(self, name: str) -> Source:
        return _source(self._link.get(f"/sources/{quoted(name)}")).source

    def forget(self, name: str) -> int:
        return int(self._link.send("DELETE", f"/sources/{quoted(name)}")["jobs"])

    def all(self) -> list[Source]:
        return [status.source for status in self.list()]

    def list(self) -> list[SourceStatus]:
        return [_source(document) for document in self._link.get("/sources")]


class RemoteSchedules(_Schedules):
    """The port for schedules. They are fired by the API's own crew, or by any request for work."""

    def declare(self, declared: Sequence[NewSchedule]) -> None:
        body = {"schedules": [to_document(schedule) for schedule in declared]}
        self._link.post(f"/orchestrators/{self._remote.orchestrator}/schedules", body)

    def add(self, new: NewSchedule) -> Schedule:
        return _schedule(self._link.post("/schedules", to_document(checked(new, 0))))

    def get(self, name: str) -> Schedule:
        return _schedule(self._link.get(f"/schedules/{quoted(name)}"))

    def pause(self, name: str, reason: str | None = None) -> Schedule:
        return _schedule(self._link.post(f"/schedules/{quoted(name)}/pause", {"reason": reason}))

    def resume(self, name: str) -> Schedule:
        return _schedule(self._link.post(f"/schedules/{quoted(name)}/resume", {}))

    def remove(self, name: str) -> None:
        self._link.send("DELETE", f"/schedules/{quoted(name)}")

    def run(self, name: str) -> Job:
        return records.job(self._link.post(f"/schedules/{quoted(name)}/run", {}, details=True))

    def list(self) -> list[Schedule]:
        return [_schedule(document) for document in self._link.get("/schedules")]


class RemoteEvents(_Events):
    """The port for the log."""

    def after(self, cursor: str = "0", limit: int = 500) -> list[Event]:
        return self._raw(after=cursor, limit=limit)

    def newest(self, before: str | None = None, limit: int = 500) -> list[Event]:
        return self._raw(before=before, limit=limit)

    def last(self) -> str:
        newest = self.newest(limit=1)
        return newest[-1].cursor if newest else "0"

    def follow(self, cursor: str) -> Iterator[Event]:
        return Events.follow(self, cursor)

    def _raw(self, **query: object) -> list[Event]:
        return [
            Event(
                document["cursor"],
                records.at(document["at"]) or 0,
                document["actor"],
                [from_stored(fact) for fact in document["facts"]],
            )
            for document in self._link.get("/events/raw", **query)
        ]


class RemoteHistory(_History):
    """The port for retention."""

    def prune(
        self,
        older: Duration | None = None,
        most: int | None = None,
        told: Callable[[int], None] | None = None,
        *,
        plan: bool = False,
    ) -> Pruned:
        body = {"older": records.seconds(older), "keep": most, "plan": plan}
        return Pruned(**self._link.post("/prune", body))

    def steps(
        self,
        older: Duration | None = None,
        most: int | None = None,
        stride: Stride | None = None,
        *,
        plan: bool = False,
    ) -> Iterator[Pruned]:
        """Return no steps: the orchestrator at the database takes them."""
        return iter(())


class RemoteTokens(_Tokens):
    """The port for access tokens."""

    def create(self, name: str, scopes: Iterable[str]) -> tuple[AccessToken, str]:
        document = self._link.post("/tokens", {"name": name, "scopes": list(scopes)})
        return _token(document), document["secret"]

    def list(self) -> list[AccessToken]:
        return [_token(document) for document in self._link.get("/tokens")]

    def revoke(self, id: str) -> AccessToken:
        return _token(self._link.send("DELETE", f"/tokens/{quoted(id)}"))


@fitting
def _queue(document: Document) -> QueueStatus:
    queue = from_document(Queue, document)
    return QueueStatus(queue, document["counts"], document["paused_by"], records.at(document["oldest_ready_at"]))


@fitting
def _source(document: Document) -> SourceStatus:
    # Whether its filler goes on at once stays with the store.
    source = from_document(Source, document, more=0)
    next_fill_at = records.at(document["next_fill_at"])
    return SourceStatus(source, document["counts"], document["filler_status"], next_fill_at)


@fitting
def _schedule(document: Document) -> Schedule:
    return from_document(Schedule, document, kind=document["kind"] or "", declared=int(document["declared"]))


def _token(document: Document) -> AccessToken:
    return from_document(AccessToken, document)
