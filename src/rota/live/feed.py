"""The live feed: a snapshot of topics, then their changes, for `rota events --follow`, `app.events` and HTTP.

Every move of a job is a change of its own. Queues, workers, sources, schedules and the system's health are states: the
feed has their current value, once, however often it changed since the last read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from rota.core import job as jobs
from rota.core.errors import BadInput
from rota.core.event import JobChanged, JobMoved
from rota.core.jsontext import sound
from rota.core.record import Record
from rota.core.times import MILLISECOND, SECOND, format_instant
from rota.core.topic import checked, first_match, topics_of_jobs
from rota.live.system_health import ERROR
from rota.live.topic_states import HEALTH, TopicStates

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Any, TypeGuard

    from rota.core.event import Event
    from rota.core.job import Job
    from rota.core.times import Instant
    from rota.documents import Document
    from rota.live.topic_states import State
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
_MOST_ACTIVE = 1000


class Change(Record):
    """One change, for subscribers of any of its topics. `id` is opaque: pass it as `after` to continue from here."""

    topics: tuple[str, ...]
    type: str
    noun: str
    body: Document
    at: Instant
    id: str
    actor: str | None = None

    def topic_for(self, patterns: Sequence[str]) -> str | None:
        """Return the topic under which a subscriber of these patterns gets it; None if none of them matches."""
        return "*" if self.topics == EVERYTHING else first_match(patterns, self.topics)

    def document(self, topic: str) -> Document:
        """Return the document for a subscriber of this topic."""
        head: Document = {"id": self.id, "topic": topic, "type": self.type, "timestamp": self.at // MILLISECOND}
        head["at"] = format_instant(self.at)
        if self.actor is not None:
            head["actor"] = self.actor
        return {**head, self.noun: self.body} if self.type != RESYNC else head


class Feed:
    """One reader of the log. Without `after` it begins now, with a snapshot; with it, after the change of that id.

    Args:
        store: The store whose log is read.
        patterns: The topics to read; none means all.
        after: The id of the last change that the reader has.
        most: An event that moves more jobs than this becomes a resync; 0 means no limit.
        on_event: Called with every event that is read.
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
        self._states = TopicStates(store, self.patterns)
        self._resumed = after is not None
        self.cursor, self._skip = _position(after) if after is not None else (store.events.last(), 0)
        self.is_lost = self._resumed and after != "0" and not store.events.reaches(self.cursor)
        if self.is_lost:
            self.cursor, self._skip = store.events.last(), 0
        self.begun = self.position

    def start(self) -> list[Change]:
        """Return the first changes: every state, and the active jobs unless the moves since `after` follow."""
        with self._store.database.read():
            first = self.snapshot(self.patterns, self.position) + self.active()
        return [resync(self._store.now(), self.cursor), *first] if self.is_lost else first

    def read(self) -> list[Change]:
        """Return what happened since the last read: the moves of jobs in order, then the changed states."""
        return self.moves() + self.states()

    def moves(self, except_events: Collection[int] = ()) -> list[Change]:
        """Return the moves of jobs in the next page of the log, without those of some events."""
        page = self._store.events.after(self.cursor, PAGE)
        self.is_behind = len(page) == PAGE
        changes: list[Change] = []
        # One query for the jobs of the whole page (decision 26).
        self._jobs = self._store.jobs.some(self._job_ids(page)) if self._wants_jobs() else {}
        for event in page:
            changes += self._moved(event) if event.number not in except_events else []
            self._states.note(event)
            if self._on_event:
                self._on_event(event)
            self.cursor, self._skip, self.last_at = event.cursor, 0, event.at
        return changes

    def states(self) -> list[Change]:
        """Return the states that differ from what was published last."""
        return [self._state(state, f"{state.noun}_update", self.cursor) for state in self._states.changed()]

    def failure(self, problem: str, at: Instant) -> Change:
        """Return a change that reports a failing store. Once it answers, the system's health is published again."""
        self._states.forget(HEALTH)
        return Change((HEALTH,), "health_update", "health", {"status": ERROR, "errors": [problem]}, at, self.cursor)

    def subscribe(self, patterns: Sequence[str]) -> None:
        """Read these topics from now on."""
        self.patterns = self._states.patterns = tuple(patterns)

    def snapshot(self, patterns: Sequence[str], id: str) -> list[Change]:
        """Return the current states of these topics, as changes with this id."""
        return [self._state(state, SNAPSHOT, id) for state in self._states.snapshot(patterns)]

    @property
    def position(self) -> str:
        """The id of the last change."""
        return f"{self.cursor}/{self._skip}" if self._skip else self.cursor

    def _state(self, state: State, type: str, id: str) -> Change:
        return Change((state.topic,), type, state.noun, state.body, self._store.now(), id)

    def active(self) -> list[Change]:
        """Return the active jobs; none if the moves since `after` are published instead."""
        if not self._wants_jobs() or (self._resumed and not self.is_lost):
            return []
        now = self._store.now()
        active = self._store.jobs.list(jobs.ACTIVE, limit=_MOST_ACTIVE)
        return [
            Change(topics_of_jobs(job.queue), SNAPSHOT, "job", _body(job, job.status), now, self.cursor)
            for job in active
        ]

    def _wants_jobs(self) -> bool:
        return not self.patterns or any(pattern.endswith(("jobs", "*")) for pattern in self.patterns)

    def _moved(self, event: Event) -> list[Change]:
        """Return an event's moves of jobs. Each has an id of its own, so that a reader may stop between two."""
        if not self._wants_jobs():
            return []
        facts = [fact for fact in event.facts if isinstance(fact, JobMoved | JobChanged)]
        last = sum(len(fact.ids) if isinstance(fact, JobMoved) else 1 for fact in facts)
        place, changes = 0, []
        for fact in facts:
            # A bulk move would overflow the bounded buffers of readers: they get a resync instead.
            if self._is_large(fact):
                place += len(fact.ids)
                topics = topics_of_jobs(fact.queue)
                changes.append(Change(topics, RESYNC, "job", {}, event.at, self._id(event, place, last)))
                continue
            for topics, body in self._bodies(fact):
                place += 1
                if place > self._skip and body is not None:
                    id = self._id(event, place, last)
                    changes.append(Change(topics, "job_update", "job", body, event.at, id, event.actor))
        return changes

    def _id(self, event: Event, place: int, last: int) -> str:
        return event.cursor if place == last else f"{event.just_before}/{place}"

    def _is_large(self, fact: JobMoved | JobChanged) -> TypeGuard[JobMoved]:
        """Return whether a fact moves so many jobs that readers get a resync instead."""
        return isinstance(fact, JobMoved) and 0 < self._most < len(fact.ids)

    def _bodies(self, fact: JobMoved | JobChanged) -> Iterator[tuple[tuple[str, ...], Document | None]]:
        """Yield topics and body for each job of a fact; the body is None if nobody subscribed to the topics."""
        match fact:
            case JobMoved(verb, queue, old, new, ids, details):
                topics, is_wanted = topics_of_jobs(queue), self._wants(queue)
                for id in ids:
                    job = self._jobs.get(id) if is_wanted else None
                    body = _body(job, new) if job else {**_UNKNOWN, "id": id, "status": new, "queue": queue}
                    yield topics, {**body, "verb": verb, "was": old, **details} if is_wanted else None
            case JobChanged(verb, details=details):
                if job := self._jobs.get(fact.id):
                    yield topics_of_jobs(job.queue), {**_body(job, job.status), "verb": verb, **details}
                else:
                    yield (), None
            case other:
                assert_never(other)

    def _wants(self, queue: str) -> bool:
        return first_match(self.patterns, topics_of_jobs(queue)) is not None

    def _job_ids(self, events: Sequence[Event]) -> list[int]:
        """Return the ids of the jobs that these events may show. Some may have been pruned since."""
        ids: list[int] = []
        for fact in (fact for event in events for fact in event.facts):
            if isinstance(fact, JobChanged):
                ids.append(fact.id)
            elif isinstance(fact, JobMoved) and self._wants(fact.queue) and not self._is_large(fact):
                ids += fact.ids
        return ids


_UNKNOWN: Document = {"id": None, "path": None, "status": None, "error": None, "results": None, "queue": None}


def resync(at: Instant, cursor: str) -> Change:
    """Return a change for a reader that has missed others: the snapshot that follows replaces what it knows."""
    return Change(EVERYTHING, RESYNC, "", {}, at, cursor)


def _position(id: str) -> tuple[str, int]:
    """Split an id into the cursor of an event and the number of moves of the next event that were read already.

    A cursor has one or three parts, so an id with such a number has two or four.
    """
    cursor, place = id.rsplit("/", 1) if id.count("/") in (1, 3) else (id, "0")
    if not (place.isascii() and place.isdigit() and len(place) < 10):
        raise BadInput(f"{id!r} is not an event's id: hand back one as it came")
    return cursor, int(place)


def _body(job: Job, status: str | None) -> Document:
    """Return the body of a job in the state after a move, without error and result of a later state."""
    is_current = job.status == status
    has_result = is_current and job.result_json is not None and len(job.result_json) <= LARGEST_RESULT
    return {
        "id": job.id,
        "path": _path(job),
        "status": status,
        "error": job.error if is_current else None,
        "results": _read(job.result_json) if has_result and job.result_json else None,
        "queue": job.queue,
    }


def _read(text: str) -> Any:
    """Return the value of JSON text, or the text itself if it is not valid JSON."""
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
    """Yield the documents of the feed without end. It begins with this call, not with the first read."""
    if store.link is not None:
        from rota.store.remote.sse import follow

        return follow(store.link, checked(patterns), after)
    feed = Feed(store, patterns, after)
    return _follow(store, feed, feed.start())


def _follow(store: Store, feed: Feed, changes: list[Change]) -> Iterator[Document]:
    listener = store.database.listen(events=True)
    try:
        while True:
            for change in changes:
                if (topic := change.topic_for(feed.patterns)) is not None:
                    yield change.document(topic)
            changes = feed.read()
            if not changes and not feed.is_behind:
                listener.wait(store.settings.poll_interval / SECOND)
    finally:
        listener.close()
