"""Queues, slots, orchestrators, sources, events and tokens over the API."""

from __future__ import annotations

from rota.core.access import AccessToken
from rota.core.queue import Queue
from rota.core.slot import HTTP, History
from rota.core.source import Source
from rota.core.times import SECOND
from rota.store.events import Event, Events
from rota.store.host import host_id
from rota.store.orchestrators import Live, Orchestrators
from rota.store.queues import Queues, QueueStatus
from rota.store.remote import records
from rota.store.remote.link import quoted
from rota.store.remote.port import Port
from rota.store.slots import Slot, Slots
from rota.store.sources import Sources, SourceStatus
from rota.store.tokens import Tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.core.times import Instant
    from rota.store.remote.records import Document

    class _Queues(Queues, Port): ...

    class _Slots(Slots, Port): ...

    class _Orchestrators(Orchestrators, Port): ...

    class _Sources(Sources, Port): ...

    class _Events(Events, Port): ...

    class _Tokens(Tokens, Port): ...
else:
    _Queues = _Slots = _Orchestrators = _Sources = _Events = _Tokens = Port


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
        return [_queue(told) for told in self._link.get("/queues")]


class RemoteSlots(_Slots):
    """The port for slots; `this host` is the API's, as for who asks there."""

    def all(self) -> list[Slot]:
        now, hosts = self._store.now(), {name: host for host, name in self._store.orchestrators.hosts().items()}
        return [_slot(told, hosts, now) for told in self._link.get("/slots")]

    def why(self, name: str) -> str:
        return str(self._link.get(f"/slots/{quoted(name)}/why")["why"])

    def reset(self, name: str, forget: bool = False) -> None:
        self._link.post(f"/slots/{quoted(name)}/reset", {"forget": forget})

    def scale(self, crew: str, host: str, queue: str, count: int) -> None:
        body = {"crew": crew, "host": _elsewhere(host), "count": count}
        self._link.post(f"/queues/{quoted(queue)}/scale", body)


class RemoteOrchestrators(_Orchestrators):
    """The port for orchestrators, as far as people ask: what they do themselves needs the database."""

    def live(self) -> list[Live]:
        return [
            Live(
                told["id"],
                told["status"],
                told["crew"],
                told["host_id"],
                told["hostname"],
                told["pid"],
                records.at(told["started_at"]) or 0,
                records.at(told["last_reconcile_at"]),
                0,
                told["version"],
            )
            for told in self._link.get("/info")["orchestrators"]
        ]

    def hosts(self) -> dict[str, str]:
        """Those that have an orchestrator now."""
        return {each.host: each.hostname for each in self.live()}

    def last_wish(self) -> int:
        return 0  # the API answers a wish once it is carried out: there is nothing left to wait for

    def host_named(self, name: str) -> str:
        return name

    def drain(self, crew: str, host: str) -> list[Live]:
        asked = self._link.post("/orchestrator/drain", {"crew": crew, "host": _elsewhere(host)})["draining"]
        return [each for each in self.live() if each.pid in asked]


class RemoteSources(_Sources):
    """The port for sources; they are filled by the workers of an orchestrator."""

    def get(self, name: str) -> Source:
        return _source(self._link.get(f"/sources/{quoted(name)}")).source

    def forget(self, name: str) -> int:
        return int(self._link.send("DELETE", f"/sources/{quoted(name)}")["jobs"])

    def all(self) -> list[Source]:
        return [status.source for status in self.list()]

    def list(self) -> list[SourceStatus]:
        return [_source(told) for told in self._link.get("/sources")]


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
        found = self._link.get("/events/raw", **query)
        return [Event(told["cursor"], records.at(told["at"]) or 0, told["actor"], told["facts"]) for told in found]


class RemoteTokens(_Tokens):
    """The port for access tokens."""

    def create(self, name: str, scopes: Iterable[str]) -> tuple[AccessToken, str]:
        told = self._link.post("/tokens", {"name": name, "scopes": list(scopes)})
        return _token(told), told["secret"]

    def list(self) -> list[AccessToken]:
        return [_token(told) for told in self._link.get("/tokens")]

    def revoke(self, id: str) -> AccessToken:
        return _token(self._link.send("DELETE", f"/tokens/{quoted(id)}"))


def _elsewhere(host: str) -> str | None:
    """The host that was named; none where the caller's own is meant, which the API does not know."""
    return None if host == host_id() else host


def _queue(told: Document) -> QueueStatus:
    known = {name: told[name] for name in Queue._fields if name in told}
    queue = Queue(**{**known, "paused_at": records.at(told["paused_at"])})
    return QueueStatus(queue, told["counts"], told["paused_by"], records.at(told["oldest_ready_at"]))


def _slot(told: Document, hosts: dict[str, str], now: Instant) -> Slot:
    """A slot as far as the API tells: how often it was restarted of late, but not when."""
    host, starts_in = told["host"] or "", told["starts_in"]
    lately = (now,) * told["restarts"]
    history = History(lately, told["lifetime_restarts"], failure_reason=told["failure_reason"])
    return Slot(
        name=told["name"],
        queue=told["queue"] or HTTP,
        n=int(told["name"].rpartition(":")[2]),
        crew=told["crew"],
        host=hosts.get(host, host),
        status=told["status"],
        worker=told["worker_id"],
        wanted=told["wanted"],
        start_at=None if starts_in is None else now + round(starts_in * SECOND),
        history=history,
        health=told["health"],
    )


def _source(told: Document) -> SourceStatus:
    known: Document = {
        name: records.at(told[name]) if name.endswith("_at") else told.get(name) for name in Source._fields
    }
    source = Source(**{**known, "every": records.duration(told["every"]), "more": 0})
    return SourceStatus(source, told["counts"], told["filler_status"], records.at(told["next_fill_at"]))


def _token(told: Document) -> AccessToken:
    times: Document = {name: records.at(told[name]) for name in ("created_at", "last_used_at", "revoked_at")}
    return AccessToken(told["id"], told["name"], frozenset(told["scopes"]), told["created_by"], **times)
