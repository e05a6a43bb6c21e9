"""The live feed: what topics say now, then what changes. `rota events --follow`, `app.events` and HTTP all tell it.

Jobs are told move by move, none left out. Queues, workers, sources, schedules and the system's health are states: what
is told is how they are now, once however often they changed since the last look.
"""

from __future__ import annotations

from rota.core import job as jobs
from rota.core.errors import BadInput
from rota.core.jsontext import sound
from rota.core.record import Record
from rota.core.system_health import ERROR
from rota.core.times import MILLISECOND, SECOND, format_instant
from rota.core.topic import checked, first_match
from rota.live.topic_states import HEALTH, States

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Any

    from rota.core.job import Job
    from rota.core.times import Instant
    from rota.documents import Document, Fact
    from rota.live.topic_states import State
    from rota.store.events import Event
    from rota.store.store import Store

SNAPSHOT, RESYNC = "snapshot", "resync"
TYPES = (
    SNAPSHOT,
    "worker_update",
    "queue_update",
    "job_update",
    "source_update",
    "schedule_update",
    "health_update",
    RESYNC,
)
EVERYTHING = ("*",)
PAGE = 500
LARGEST_RESULT = 16 * 1024
_MOST_SHOWN = 1000


class Change(Record):
    """One thing to tell, to whoever wants one of its topics. `id` is opaque: hand it back to read on from here."""

    topics: tuple[str, ...]
    type: str
    noun: str
    body: Document
    at: Instant
    id: str
    actor: str | None = None

    def topic_for(self, patterns: Sequence[str]) -> str | None:
        """The topic under which somebody with these patterns gets it; None when they do not want it."""
        return "*" if self.topics == EVERYTHING else first_match(patterns, self.topics)

    def document(self, topic: str) -> Document:
        """As a subscriber of this topic gets it."""
        head: Document = {"id": self.id, "topic": topic, "type": self.type, "timestamp": self.at // MILLISECOND}
        head["at"] = format_instant(self.at)
        if self.actor is not None:
            head["actor"] = self.actor
        return {**head, self.noun: self.body} if self.type != RESYNC else head


class Feed:
    """One reader of the log. Without `after` it begins now, with a snapshot; with it, where that id left off.

    `most`: an event of more jobs than this is told as `resync`. `on_event` hears of every event that is read.
    """

    def __init__(
        self,
        store: Store,
        patterns: Sequence[str] = (),
        after: str | None = None,
        most: int = 0,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self._store = store
        self._most = most
        self._on_event = on_event
        self.patterns = checked(patterns)
        self.is_behind = True
        self.last_at: Instant | None = None
        self._jobs: dict[int, Job] = {}
        self._states = States(store, self.patterns)
        self._resumed = after is not None
        self.cursor, self._skip = _position(after) if after is not None else (store.events.last(), 0)
        self.is_lost = self._resumed and after != "0" and not store.events.reaches(self.cursor)
        if self.is_lost:
            self.cursor, self._skip = store.events.last(), 0
        self.begun = self.position

    def start(self) -> list[Change]:
        """Where things stand: every state, and the active jobs unless the moves since `after` will be told."""
        with self._store.database.read():
            found = self.snapshot(self.patterns, self.position) + self.active()
        return [lost(self._store.now(), self.cursor), *found] if self.is_lost else found

    def read(self) -> list[Change]:
        """What happened since: the moves of jobs in order, then the states that differ."""
        return self.moves() + self.states()

    def moves(self, but: Collection[int] = ()) -> list[Change]:
        """The moves of jobs since the last look, a page of the log at most, without those of some events."""
        page = self._store.events.after(self.cursor, PAGE)
        self.is_behind = len(page) == PAGE
        found: list[Change] = []
        self._jobs = self._store.jobs.some(self._spoken_of(page)) if self._wants_jobs() else {}
        for event in page:
            found += self._moved(event) if event.number not in but else []
            self._states.note(event)
            if self._on_event:
                self._on_event(event)
            self.cursor, self._skip, self.last_at = event.cursor, 0, event.at
        return found

    def states(self) -> list[Change]:
        """The states that differ from what was told last."""
        return [self._state(state, f"{state.noun}_update", self.cursor) for state in self._states.changed()]

    def failing(self, problem: str, at: Instant) -> Change:
        """Word that the store fails; when it answers again, the system's health is told anew."""
        self._states.forget(HEALTH)
        return Change((HEALTH,), "health_update", "health", {"status": ERROR, "errors": [problem]}, at, self.cursor)

    def want(self, patterns: Sequence[str]) -> None:
        """Look at these topics from now on."""
        self.patterns = self._states.patterns = tuple(patterns)

    def snapshot(self, patterns: Sequence[str], id: str) -> list[Change]:
        """The states of these topics, told under an id: another reader of this feed begins there."""
        return [self._state(state, SNAPSHOT, id) for state in self._states.snapshot(patterns)]

    @property
    def position(self) -> str:
        """The id of the last that was told."""
        return f"{self.cursor}/{self._skip}" if self._skip else self.cursor

    def _state(self, state: State, type: str, id: str) -> Change:
        return Change((state.topic,), type, state.noun, state.body, self._store.now(), id)

    def active(self) -> list[Change]:
        """The active jobs; none when the moves since an id will be told instead."""
        if not self._wants_jobs() or (self._resumed and not self.is_lost):
            return []
        now = self._store.now()
        found = self._store.jobs.list(jobs.ACTIVE, limit=_MOST_SHOWN)
        return [Change(_topics(job.queue), SNAPSHOT, "job", _body(job, job.status), now, self.cursor) for job in found]

    def _wants_jobs(self) -> bool:
        return not self.patterns or any(each.endswith(("jobs", "*")) for each in self.patterns)

    def _moved(self, event: Event) -> list[Change]:
        """An event's moves of jobs. All but the last have ids of their own, so that a reader may stop between two."""
        if not self._wants_jobs():
            return []
        facts = [fact for fact in event.facts if fact[0] == "job"]
        last = sum(_count(fact) for fact in facts)
        place, found = 0, []
        for fact in facts:
            if self._most and _count(fact) > self._most:
                place += _count(fact)
                found.append(Change(_topics(fact[2]), RESYNC, "job", {}, event.at, self._id(event, place, last)))
                continue
            for topics, body in self._bodies(fact):
                place += 1
                if place > self._skip and body is not None:
                    id = self._id(event, place, last)
                    found.append(Change(topics, "job_update", "job", body, event.at, id, event.actor))
        return found

    def _id(self, event: Event, place: int, last: int) -> str:
        return event.cursor if place == last else f"{event.just_before}/{place}"

    def _bodies(self, fact: Fact) -> Iterator[tuple[tuple[str, ...], Document | None]]:
        """One for each job that a fact speaks of; None for what nobody wants."""
        _, verb, which, *rest = fact
        if len(rest) == 1:
            job = self._jobs.get(int(which))
            yield (_topics(job.queue), {**_body(job, job.status), "verb": verb, **rest[0]}) if job else ((), None)
            return
        was, status, ids, *more = rest
        facts, topics = more[0] if more else {}, _topics(which)
        wanted = self._wants(which)
        for id in ids:
            job = self._jobs.get(id) if wanted else None
            body = _body(job, status) if job else {**_UNKNOWN, "id": id, "status": status, "queue": which}
            yield topics, {**body, "verb": verb, "was": was, **facts} if wanted else None

    def _wants(self, queue: str) -> bool:
        return first_match(self.patterns, _topics(queue)) is not None

    def _spoken_of(self, events: Sequence[Event]) -> list[int]:
        """The jobs that may have to be shown. Some of them may have been pruned since."""
        found: list[int] = []
        for fact in (fact for event in events for fact in event.facts if fact[0] == "job"):
            if len(fact) == 4:
                found.append(int(fact[2]))
            elif self._wants(fact[2]) and not (self._most and len(fact[5]) > self._most):
                found += fact[5]
        return found


_UNKNOWN: Document = {"id": None, "path": None, "status": None, "error": None, "results": None, "queue": None}


def lost(at: Instant, cursor: str) -> Change:
    """Some of what happened cannot be told any more: whoever reads this should take the snapshot that follows."""
    return Change(EVERYTHING, RESYNC, "", {}, at, cursor)


def _position(id: str) -> tuple[str, int]:
    """Where an id stands in the log: after an event, or after so many of the moves of the one behind it.

    A cursor has one part or three, so that a place behind it makes two or four.
    """
    cursor, place = id.rsplit("/", 1) if id.count("/") in (1, 3) else (id, "0")
    if not (place.isascii() and place.isdigit() and len(place) < 10):
        raise BadInput(f"{id!r} is not an event's id: hand back one as it came")
    return cursor, int(place)


def _count(fact: Fact) -> int:
    """How many jobs a fact speaks of."""
    return len(fact[5]) if len(fact) > 5 else 1


def _topics(queue: str) -> tuple[str, ...]:
    return f"queue:{queue}:jobs", "queue:jobs"


def _body(job: Job, status: str | None) -> Document:
    """A job in that state; what it said later is not told."""
    same = job.status == status
    told = same and job.result_json is not None and len(job.result_json) <= LARGEST_RESULT
    return {
        "id": job.id,
        "path": _path(job),
        "status": status,
        "error": job.error if same else None,
        "results": _read(job.result_json) if told and job.result_json else None,
        "queue": job.queue,
    }


def _read(text: str) -> Any:
    """The value of JSON text; what is in the store and no reader of JSON takes, as the text that it is."""
    try:
        return sound(text)
    except ValueError:
        return text


def _path(job: Job) -> str:
    if job.payload_json and '"path"' in job.payload_json:
        payload = _read(job.payload_json)
        if isinstance(payload, dict) and isinstance(payload.get("path"), str):
            return str(payload["path"])
    return job.title


def follow(store: Store, patterns: Sequence[str] = (), after: str | None = None) -> Iterator[Document]:
    """The feed without end, as documents; it begins when it is asked for, not when it is first read."""
    if store.link is not None:
        from rota.store.remote.sse import follow

        return follow(store.link, checked(patterns), after)
    feed = Feed(store, patterns, after)
    return _follow(store, feed, feed.start())


def _follow(store: Store, feed: Feed, found: list[Change]) -> Iterator[Document]:
    listener = store.database.listen(events=True)
    try:
        while True:
            for change in found:
                if (topic := change.topic_for(feed.patterns)) is not None:
                    yield change.document(topic)
            found = feed.read()
            if not found and not feed.is_behind:
                listener.wait(store.settings.poll_interval / SECOND)
    finally:
        listener.close()
