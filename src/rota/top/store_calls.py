"""Everything that `rota top` asks of the store: snapshots read on a thread of their own, and the actions behind keys.

No call of the store ever runs on the screen's thread. A store that is away is reported and retried.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import TYPE_CHECKING, Any

from rota.core import job as jobs
from rota.core.errors import RotaError
from rota.core.record import Record
from rota.core.slot import HTTP
from rota.live.attention import notices
from rota.live.system_health import Place, health
from rota.live.throughput import STEP, STEPS
from rota.store.directives import until_acknowledged

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Run
    from rota.core.event import Event
    from rota.core.job import Job
    from rota.core.slot import RestartPolicy
    from rota.core.source import Source
    from rota.core.times import Duration, Instant
    from rota.core.worker import Worker
    from rota.live.attention import Notice
    from rota.store.engine.database import Listener
    from rota.store.queues import QueueStatus
    from rota.store.store import Store
    from rota.store.workers.crews import Live
    from rota.store.workers.registration import Certificate
    from rota.store.workers.slots import Slot

    Question = Callable[[Store], Any]
    CrewAt = tuple[str, str]  # a crew and its host

MOST_HELD, MOST_JOBS = 1000, 200
MOST_DEATHS = 50
_MOST_PAGES = 8
IN_HAND, FAILED, NEWEST = "in hand", "failed", "newest"
SELECTIONS = (IN_HAND, FAILED, NEWEST)
_STATUS = {IN_HAND: jobs.ACTIVE, FAILED: jobs.FAILED, NEWEST: None}
AT_MOST_EVERY = 0.5  # seconds between two snapshots, while much happens
AT_LEAST_EVERY = 5.0  # seconds between two snapshots, while nothing happens
LONGEST = 3 * AT_LEAST_EVERY  # seconds between two snapshots of a store that takes long to read
RETRY = 1.0


class Snapshot(Record):
    """The state at `now`, on the store's clock; `held` are the active jobs, `listed` those of `selection`."""

    now: Instant
    where: str
    health: str
    notices: list[Notice]
    queues: list[QueueStatus]
    took: dict[str, tuple[int, Duration]]
    sources: list[Source]
    slots: list[Slot]
    workers: list[Worker]
    held: list[Job]
    listed: list[Job]
    selection: str
    deaths: list[tuple[str, Certificate]]
    live: list[Live]
    hosts: dict[str, str]
    restarts: RestartPolicy


class Page(Record):
    """One job with its runs, and why it is as it is."""

    now: Instant
    job: Job
    runs: list[Run]
    why: str


def read_snapshot(store: Store, selection: str = IN_HAND) -> Snapshot:
    """Read everything that the panes show, in one transaction."""
    with store.database.read():
        slots, live = store.slots.all(), store.orchestrators.live()
        crews = {(crew.crew, crew.host) for crew in live}
        places = [Place(slot.name, slot.queue, slot.status, (slot.crew, slot.host) in crews) for slot in slots]
        return Snapshot(
            now=store.now(),
            where=store.database.path,
            health=health(place for place, slot in zip(places, slots, strict=True) if slot.wanted)[0],
            notices=notices(store),
            queues=store.queues.list(),
            # Over HTTP there are no sums of run times: there the ETA is estimated from the pace.
            took=store.metrics.took() if store.link is None else {},
            sources=store.sources.all(),
            slots=slots,
            workers=[worker for worker in store.workers.list() if worker.queue != HTTP],
            held=store.jobs.held(MOST_HELD),
            listed=[] if selection == IN_HAND else store.jobs.list(_STATUS[selection], limit=MOST_JOBS),
            selection=selection,
            deaths=store.workers.deaths(MOST_DEATHS),
            live=live,
            hosts=store.orchestrators.hosts(),
            restarts=store.settings.restarts,
        )


def read_page(store: Store, id: int) -> Page:
    """Read a job with its runs in one transaction."""
    with store.database.read():
        return Page(store.now(), store.jobs.get(id), store.claims.runs(id), store.jobs.why(id))


def recent_events(store: Store) -> list[Event]:
    """Return the events of the last minutes, as far as a few pages hold them."""
    oldest = store.now() - STEPS * STEP
    events = page = store.events.newest()
    for _ in range(_MOST_PAGES):
        if not page or page[0].at <= oldest:
            break
        page = store.events.newest(page[0].cursor)
        events = page + events
    return events


class Update(Record):
    """A snapshot with the events since the one before; `answer` is what the open screen asked for.

    The first one after opening the store (`is_first`) has the events of the last minutes.
    """

    snapshot: Snapshot
    events: list[Event]
    is_first: bool
    answer: Any = None


class Away(Record):
    """The store did not answer, for `reason`."""

    reason: str


class Reader(threading.Thread):
    """Read snapshots in a loop, and call `report` with each of them on this thread."""

    def __init__(self, open_store: Callable[[], Store], report: Callable[[Update | Away], object]) -> None:
        super().__init__(name="rota-top-reader", daemon=True)
        self._open_store = open_store
        self._report = report
        # A pipe and not an event, because the thread waits for it and for the store's descriptor in one `select`.
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ended = False
        self._question: Question | None = None
        self.selection = IN_HAND

    def ask(self, question: Question | None) -> None:
        """Answer a question with every snapshot from now on; take one now."""
        self._question = question
        self.read_now()

    def select(self, selection: str) -> None:
        """List these jobs from now on; take a snapshot now."""
        self.selection = selection
        self.read_now()

    def read_now(self) -> None:
        os.write(self._wake_writer, b"!")

    def end(self) -> None:
        self._ended = True
        self.read_now()
        self.join(5)

    def run(self) -> None:
        while not self._ended:
            try:
                with self._open_store() as store:
                    self._follow(store)
            except Exception as problem:
                self._report(Away(in_words(problem)))
                self._wait(None, RETRY)

    def _follow(self, store: Store) -> None:
        """Take snapshots until the end, or until the store is away."""
        listener = store.database.listen(events=True)
        try:
            with store.database.read():
                cursor, events = store.events.last(), recent_events(store)
            is_first, is_asked, due = True, True, 0.0
            while not self._ended:
                while page := store.events.after(cursor):
                    events, cursor = events + page, page[-1].cursor
                if events or is_asked or time.monotonic() >= due:
                    took = self._read(store, events, is_first)
                    events, is_first = [], False
                    due = time.monotonic() + min(LONGEST, max(AT_LEAST_EVERY, 100 * took))
                    self._pause(max(AT_MOST_EVERY, 10 * took))
                is_asked = self._wait(listener, due - time.monotonic())
        finally:
            listener.close()

    def _read(self, store: Store, events: list[Event], is_first: bool) -> float:
        """Take and report a snapshot; return how long it took, so that a large store is read less often."""
        began, question = time.monotonic(), self._question
        snapshot = read_snapshot(store, self.selection)
        answer = question(store) if question else None
        took = time.monotonic() - began
        self._report(Update(snapshot, events, is_first, answer))
        return took

    def _pause(self, seconds: float) -> None:
        """Wait without regard to notifications; a question of the screen ends the wait."""
        if self._wait(None, seconds):
            self.read_now()

    def _wait(self, listener: Listener | None, seconds: float) -> bool:
        """Wait until the store notifies, the screen asks or the time is over; return whether the screen asked."""
        watched, notified = [self._wake_reader], -1 if listener is None else listener.fileno()
        if notified >= 0:
            watched.append(notified)
        elif listener is not None:
            # Without a descriptor there are no notifications to wait for: poll the store.
            seconds = min(seconds, 2 * AT_MOST_EVERY)
        readable, _, _ = select.select(watched, [], [], max(0.0, seconds))
        if listener is not None and (notified < 0 or notified in readable):
            # Drains the notifications, and reconnects a listener that was lost.
            listener.wait(0)
        if self._wake_reader in readable:
            os.read(self._wake_reader, 65536)
            return True
        return False


def in_words(problem: Exception) -> str:
    """Describe an error in a sentence: a traceback would spoil the screen."""
    if isinstance(problem, RotaError | OSError):
        return str(problem)
    return f"a bug in rota, please report it: {type(problem).__name__}: {problem}"


def pause(store: Store, queue: str) -> str:
    changed = store.queues.pause(queue, None)
    until_acknowledged(store, f"queue {queue} is paused")
    return f"queue {queue} is paused" if changed else f"queue {queue} was paused already"


def resume(store: Store, queue: str) -> str:
    if store.queues.resume(queue):
        return f"queue {queue} is resumed"
    if not store.queues.is_open(queue):
        return f"queue {queue} is not paused itself, but everything is: `rota resume` without a queue ends that"
    return f"queue {queue} was not paused"


def scale(store: Store, queue: str, crew: str, host: str, size: int) -> str:
    store.slots.scale(crew, host, queue, size)
    return f"queue {queue} is scaled to {size} in crew {crew}"


def reset(store: Store, slot: str) -> str:
    store.slots.reset(slot)
    return f"{slot} is reset"


def cancel(store: Store, id: int) -> str:
    before = store.jobs.get(id)
    store.jobs.cancel(id)
    if before.orchestrator is not None:
        until_acknowledged(store, f"job {id} is cancelled")
    return f"job {id} is cancelled"


def retry(store: Store, id: int) -> str:
    store.jobs.retry(id)
    return f"job {id} is tried again"


def scalable(snapshot: Snapshot, queue: str, slot: str | None) -> list[tuple[CrewAt, int]]:
    """Return the crews in which a queue can be scaled, with the number of slots that it has in each.

    That is the crew of the slot, if one is chosen; else every crew with slots of the queue; else every live crew.
    """
    pool = [other for other in snapshot.slots if other.queue == queue and other.wanted]
    chosen = [other for other in pool if other.name == slot] or pool
    crews = {(other.crew, other.host) for other in chosen} or {(live.crew, live.host) for live in snapshot.live}
    return [(crew, sum((other.crew, other.host) == crew for other in pool)) for crew in sorted(crews)]


def not_scalable(queue: str, candidates: list[tuple[CrewAt, int]]) -> str:
    """Explain why it is not clear in which crew to scale a queue."""
    if not candidates:
        return "no crew is running: `rota orchestrator start` begins one"
    return (
        f"several crews could serve {queue}: choose one of its slots, or use `rota scale {queue}=N --crew … --host …`"
    )
