"""A snapshot of the store: all that the screens show, read in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core.record import Record
from rota.core.slot import HTTP
from rota.core.system_health import Place, health
from rota.live.attention import notices
from rota.live.throughput import STEP, STEPS

if TYPE_CHECKING:
    from rota.core.claim import Run
    from rota.core.job import Job
    from rota.core.restart import RestartPolicy
    from rota.core.source import Source
    from rota.core.times import Duration, Instant
    from rota.core.worker import Worker
    from rota.live.attention import Notice
    from rota.store.events import Event
    from rota.store.queues import QueueStatus
    from rota.store.store import Store
    from rota.store.workers.crews import Live
    from rota.store.workers.registration import Certificate
    from rota.store.workers.slots import Slot

MOST_HELD, MOST_JOBS = 1000, 200
MOST_DEATHS = 50
_MOST_PAGES = 8
IN_HAND, FAILED, NEWEST = "in hand", "failed", "newest"
SELECTIONS = (IN_HAND, FAILED, NEWEST)
_STATUS = {IN_HAND: jobs.ACTIVE, FAILED: jobs.FAILED, NEWEST: None}


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
    """Read all of it in one transaction."""
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
            took=store.metrics.took() if store.link is None else {},  # over HTTP the pace says how long it will take
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
