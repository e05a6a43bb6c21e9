"""The states that topics publish, of queues, workers, sources, schedules and the system, and which have changed."""

from __future__ import annotations

from rota import documents
from rota.core import job as jobs
from rota.core.errors import NotFound
from rota.core.event import QueueChanged, ScheduleChanged, SourceChanged, UnknownFact, WorkerChanged
from rota.core.queue import ALL
from rota.core.record import Record
from rota.core.slot import HTTP
from rota.core.topic import first_match
from rota.live.system_health import Place, average, eta, health

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.core.event import Event
    from rota.core.schedule import Schedule
    from rota.core.source import Source
    from rota.core.worker import Worker
    from rota.documents import Document
    from rota.store.store import Store
    from rota.store.workers.slots import Slot

GONE = "gone"
HEALTH = "system:health"


class State(Record):
    """The current document of one topic."""

    topic: str
    noun: str
    body: Document


class TopicStates:
    """The states of the subscribed topics as they were published last, and as they are in the store."""

    def __init__(self, store: Store, patterns: Sequence[str]) -> None:
        self._store = store
        self.patterns = patterns
        self._published: dict[str, State] = {}
        self._details: dict[tuple[str, str], Document] = {}
        self._slots: list[Slot] = []

    def note(self, event: Event) -> None:
        """Remember the facts of an event that are published along with the state of their subject."""
        for fact in event.facts:
            match fact:
                case WorkerChanged() | QueueChanged() | SourceChanged() | ScheduleChanged():
                    self._details[fact.noun, fact.subject] = {"verb": fact.verb, **fact.details}
                case UnknownFact(stored):
                    # Ignoring it would hide a change from readers; after an error they begin with a snapshot.
                    raise ValueError(f"event {event.cursor} has a fact of a later version: {stored}")

    def forget(self, topic: str) -> None:
        """Publish the state of a topic again, even if it has not changed."""
        self._published.pop(topic, None)

    def snapshot(self, patterns: Sequence[str]) -> list[State]:
        """Return the states of these topics. What differs from the published states is still published by `changed`."""
        states = [state for state in self._read() if first_match(patterns, [state.topic])]
        for state in states:
            self._published.setdefault(state.topic, state)
        return states

    def changed(self) -> list[State]:
        """Return the states that have changed, with the details noted since, and the last ones of removed subjects."""
        now = {state.topic: state for state in self._read()}
        changed = []
        for topic, state in now.items():
            details = self._details.get(_subject(state), {})
            if details or state != self._published.get(topic):
                changed.append(state.replace(body={**state.body, **details}))
        for topic, state in self._published.items():
            if topic not in now and first_match(self.patterns, [topic]):
                details = self._details.get(_subject(state), {})
                changed.append(state.replace(body={**state.body, **self._end(state), **details}))
        self._published = now
        self._details.clear()
        return changed

    def _read(self) -> Iterator[State]:
        if self._includes("queue") or self._includes("worker") or self._includes("system"):
            self._slots = self._store.slots.all()
        if self._includes("queue"):
            yield from self._matching(self._queues())
        if self._includes("worker"):
            yield from self._matching(self._workers())
        if self._includes("source"):
            yield from self._matching(self._sources())
        if self._includes("schedule"):
            yield from self._matching(self._schedules())
        if self._includes("system"):
            yield from self._matching([self._health()])

    def _includes(self, root: str) -> bool:
        roots = {pattern.partition(":")[0] for pattern in self.patterns}
        only_jobs = root == "queue" and all(
            pattern.endswith("jobs") for pattern in self.patterns if pattern.startswith("queue")
        )
        return not self.patterns or "*" in roots or (root in roots and not only_jobs)

    def _matching(self, states: Iterator[State] | list[State]) -> Iterator[State]:
        return (state for state in states if first_match(self.patterns, [state.topic]))

    def _queues(self) -> Iterator[State]:
        counts, took, store = self._store.queues.counts(), self._store.metrics.took(), self._store
        # A pool may exist before the first job of its queue.
        for slot in self._slots:
            if slot.wanted and slot.queue != HTTP:
                counts.setdefault(slot.queue, dict.fromkeys(jobs.STATES, 0))
        serving = [worker.queue for worker in store.workers.list() if worker.queue != HTTP]
        for name, of_queue in counts.items():
            able = sum(queue in (None, name) for queue in serving)
            yield State(f"queue:{name}:status", "queue", _queue(name, of_queue, took.get(name, (0, 0)), able))
        total = {state: sum(of_queue[state] for of_queue in counts.values()) for state in jobs.STATES}
        runs = sum(n for n, _ in took.values()), sum(total for _, total in took.values())
        yield State("queue:status", "queue", _queue(None, total, runs, len(serving)))

    def _workers(self) -> Iterator[State]:
        living = {worker.id: worker for worker in self._store.workers.list() if worker.queue != HTTP}
        is_open: dict[str | None, bool] = {}
        now = self._store.now()

        def shown(worker: Worker) -> str:
            if worker.queue not in is_open:
                is_open[worker.queue] = self._store.queues.is_open(worker.queue)
            return worker.shown(now, not is_open[worker.queue])

        for slot in self._slots:
            worker = living.pop(slot.worker, None) if slot.worker else None
            if (slot.wanted and slot.queue != HTTP) or worker:
                yield State(
                    f"{slot.name}:status", "worker", _filled(slot, worker, shown(worker) if worker else slot.status)
                )
        for worker in living.values():
            component = f"worker:{worker.queue or '-'}:{worker.id}"
            yield State(f"{component}:status", "worker", _worker(component, worker.id, worker, shown(worker)))

    def _sources(self) -> Iterator[State]:
        for source in self._store.sources.all():
            yield State(f"source:{source.name}:status", "source", _source(source))

    def _schedules(self) -> Iterator[State]:
        for schedule in self._store.schedules.list():
            yield State(f"schedule:{schedule.name}:status", "schedule", _schedule(schedule))

    def _health(self) -> State:
        live = {(orchestrator.crew, orchestrator.host) for orchestrator in self._store.orchestrators.live()}
        places = [
            Place(slot.name, slot.queue, slot.status, (slot.crew, slot.host) in live, slot.history.failure_reason)
            for slot in self._slots
            if slot.wanted
        ]
        status, errors = health(places)
        return State(HEALTH, "health", {"status": status, "errors": errors})

    def _end(self, state: State) -> Document:
        """Return how the subject of a state ended that is no longer listed."""
        if state.noun != "worker":
            return {}
        try:
            status = self._store.workers.get(state.body["worker_id"] or "").status
        except NotFound:
            status = GONE
        return {"status": status, "current_job": None}


def _subject(state: State) -> tuple[str, str]:
    """Return the noun and name by which facts of the log refer to a state's subject."""
    if state.noun == "queue":
        return state.noun, state.body["queue_type"] or ALL
    return state.noun, str(state.body.get("worker_id" if state.noun == "worker" else "id"))


def _queue(name: str | None, counts: dict[str, int], took: tuple[int, int], workers: int) -> Document:
    pending, seconds = sum(counts[state] for state in jobs.WAITING), average(*took)
    return {
        "queue_type": name,
        "pending": pending,
        "running": counts[jobs.ACTIVE],
        "completed": counts[jobs.DONE],
        "avg_time": seconds,
        "eta": eta(pending, seconds, workers),
    }


def _source(source: Source) -> Document:
    return {
        "id": source.name,
        "queue_type": source.queue,
        "added_count": source.added_count,
        "success_count": source.success_count,
        "error_count": source.error_count,
        "repeated_count": source.repeated_count,
        "last_fill_error": source.last_fill_error,
    }


def _schedule(schedule: Schedule) -> Document:
    document = documents.schedule(schedule)
    fields = ("paused", "next_at", "last_at", "fired_count", "last_job", "last_status", "error")
    return {"id": schedule.name, "queue_type": schedule.queue, **{name: document[name] for name in fields}}


def _filled(slot: Slot, worker: Worker | None, status: str) -> Document:
    if worker is not None:
        return {**_worker(slot.name, slot.n, worker, status), "queue_type": slot.queue}
    return {
        "component": slot.name,
        "id": slot.n,
        "queue_type": slot.queue,
        "status": status,
        "pid": None,
        "current_job": None,
        "worker_id": None,
        "name": slot.name,
    }


def _worker(component: str, id: int | str, worker: Worker, status: str) -> Document:
    return {
        "component": component,
        "id": id,
        "queue_type": worker.queue,
        "status": status,
        "pid": worker.pid,
        "current_job": worker.current_job,
        "worker_id": worker.id,
        "name": worker.name,
    }
