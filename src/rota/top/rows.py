"""What the panes show of a look, row by row. Pure: the time is passed in, and nothing here can steer a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.attention import HOST, QUEUE, SLOT
from rota.core import job as jobs
from rota.core import slot as slots
from rota.core import worker as workers
from rota.core.ids import printable
from rota.core.queue import BREAKER
from rota.core.record import Record
from rota.core.source import is_internal
from rota.core.system import average, eta
from rota.core.times import SECOND
from rota.top.layout import Column
from rota.top.words import ago, bars, count, rate, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rota.core.job import Job
    from rota.core.pace import Pace
    from rota.core.times import Duration, Instant
    from rota.core.worker import Worker
    from rota.store.queues import QueueStatus
    from rota.store.slots import Slot
    from rota.store.workers import Certificate
    from rota.top.look import Look

    Cell = tuple[str, str]
    Place = tuple[str, str]

PLAIN, DIM, GOOD, BUSY, WARN, BAD = "plain", "dim", "good", "busy", "warn", "bad"
_TONES = {
    **dict.fromkeys((workers.BUSY, jobs.ACTIVE, jobs.READY), BUSY),
    **dict.fromkeys((workers.IDLE, jobs.DONE, "open"), GOOD),
    **dict.fromkeys((workers.LATE, workers.STOPPING, workers.PAUSED, slots.BACKOFF, jobs.BLOCKED), WARN),
    **dict.fromkeys((slots.FAILED, workers.DEAD, BREAKER), BAD),
    **dict.fromkeys((slots.STARTING, slots.EMPTY, jobs.SCHEDULED, jobs.CANCELLED), DIM),
}
_SPARK = 16


class Row(Record):
    """One line of a pane. `key` stays while the thing does; the rest is what a key on the keyboard acts on."""

    key: str
    cells: tuple[Cell, ...]
    queue: str | None = None
    slot: str | None = None
    job: int | None = None


ATTENTION = (Column("", 5), Column("", 6, 28), Column("", 20, grows=True), Column("", 6, right=True))
QUEUES = (
    Column("QUEUE", 12, 32),
    Column("READY", 6, right=True),
    Column("ACTIVE", 6, right=True),
    Column("WAITING", 7, right=True),
    Column("FAILED", 6, right=True),
    Column("DONE", 6, right=True, from_width=100),
    Column("RATE", 6, right=True),
    Column("OLDEST", 6, right=True),
    Column("ETA", 6, right=True),
    Column("LATELY", _SPARK, from_width=120),
    Column("STATE", 7),
    Column("", 16, grows=True, from_width=100),
)
SLOTS = (
    Column("SLOT", 14, 30),
    Column("STATE", 8),
    Column("FOR", 6, right=True),
    Column("JOB", 6, 10, right=True),
    Column("DOES", 16, grows=True),
    Column("RESTARTS", 9, right=True),
    Column("HOST", 8, 16, from_width=110),
)
HELD = (
    Column("JOB", 6, 10, right=True),
    Column("FOR", 6, right=True),
    Column("TRY", 4, right=True),
    Column("TITLE", 24, grows=True),
    Column("WHO", 14, 24),
    Column("QUEUE", 8, 16, from_width=90),
)
LISTED = (
    Column("JOB", 6, 10, right=True),
    Column("STATE", 9),
    Column("AGO", 6, right=True),
    Column("TRY", 4, right=True),
    Column("TITLE", 24, grows=True),
    Column("QUEUE", 8, 16),
)
DEATHS = (
    Column("AGO", 6, right=True),
    Column("SLOT", 14, 30),
    Column("REASON", 10, 17),
    Column("JOB", 6, 10, right=True),
    Column("WHAT", 16, grows=True),
)


def attention_rows(look: Look, now: Instant) -> Iterator[Row]:
    """What needs a person, worst first."""
    for notice in look.notices:
        cells = _cells((notice.noun, BAD), (notice.which, PLAIN), (notice.text, PLAIN), (ago(notice.since, now), DIM))
        key = f"{notice.noun} {notice.which}"
        if notice.noun == SLOT:
            queue = next((slot.queue for slot in look.slots if slot.name == notice.which), None)
            yield Row(key, cells, queue=queue, slot=notice.which)
        elif notice.noun == QUEUE:
            yield Row(key, cells, queue=notice.which)
        elif notice.noun == HOST:
            yield Row(key, cells)
        else:
            yield Row(key, cells, job=int(notice.which))


def queue_rows(look: Look, pace: Pace, now: Instant) -> Iterator[Row]:
    """Each queue: how much waits, how fast it goes, how long it will take."""
    rates = pace.rates(now)
    for status in look.queues:
        if not is_internal(status.queue.name):
            yield _queue_row(status, look, pace, rates, now)


def _queue_row(status: QueueStatus, look: Look, pace: Pace, rates: Mapping[str, float], now: Instant) -> Row:
    name, counts = status.queue.name, status.counts
    able = sum(worker.queue in (None, name) for worker in look.workers)
    pending = sum(counts[state] for state in jobs.WAITING)
    done = counts[jobs.DONE] + sum(source.success_count for source in look.sources if source.queue == name)
    waiting = counts[jobs.BLOCKED] + counts[jobs.SCHEDULED]
    cells = _cells(
        (name, PLAIN),
        _number(counts[jobs.READY], BUSY),
        _number(counts[jobs.ACTIVE], BUSY),
        _number(waiting, PLAIN),
        _number(counts[jobs.FAILED], BAD),
        _number(done, PLAIN),
        (rate(rates.get(name, 0)), PLAIN),
        (ago(status.oldest_ready_at, now), PLAIN),
        (_left(pending, look.took.get(name), able, rates.get(name, 0)), PLAIN),
        (bars(pace.finished(now, _SPARK, name))[0], BUSY),
        *_state(status),
    )
    return Row(name, cells, queue=name)


def _left(pending: int, took: tuple[int, Duration] | None, able: int, rate: float) -> str:
    """How long what waits will take: by what runs took, or by the pace where jobs are gone once they are done."""
    if took is not None and able:
        seconds = eta(pending, average(*took), able)
    else:
        seconds = pending / rate if rate else 0.0
    return span(round(seconds * SECOND)) if seconds else ""


def _state(status: QueueStatus) -> tuple[Cell, Cell]:
    """Whether jobs may be claimed from a queue, in a word, and why not."""
    queue = status.queue
    if queue.paused_by == BREAKER:
        return (BREAKER, BAD), (queue.pause_reason or "", PLAIN)
    if status.paused_by is not None:
        because = f": {queue.pause_reason}" if queue.pause_reason else ""
        return (workers.PAUSED, WARN), (f"by {status.paused_by}{because}", PLAIN)
    if queue.max_depth is not None and sum(status.counts[state] for state in jobs.WAITING) >= queue.max_depth:
        return ("full", WARN), (f"at most {queue.max_depth} may wait", PLAIN)
    failed = f"{queue.failures} of {queue.breaker} failures" if queue.breaker is not None and queue.failures else ""
    return ("open", GOOD), (failed, WARN)


def slot_rows(look: Look, now: Instant) -> Iterator[Row]:
    """Each wanted slot and what it does now; then the workers that fill none."""
    held = {job.id: job for job in look.held}
    living = {worker.id: worker for worker in look.workers}
    running = {(each.crew, each.host) for each in look.live}
    paused = {status.queue.name for status in look.queues if status.paused_by is not None}
    for slot in look.slots:
        worker = living.pop(slot.worker, None) if slot.worker else None
        if slot.queue != slots.HTTP and (slot.wanted or worker):
            job = held.get(worker.current_job or 0) if worker else None
            is_run = (slot.crew, slot.host) in running
            status = worker.shown(now, slot.queue in paused) if worker else slot.status if is_run else slots.EMPTY
            yield _slot_row(slot, worker, job, status, look.hosts.get(slot.host, ""), now)
    for worker in living.values():
        job = held.get(worker.current_job or 0)
        status = worker.shown(now, worker.queue in paused)
        does = job.title if job else "" if worker.current_job is None else "…"
        since = job.claimed_at if job else None
        cells = _cells(
            (worker.name, PLAIN),
            (status, _TONES.get(status, PLAIN)),
            (ago(since, now), PLAIN),
            (_id(worker.current_job), PLAIN),
            (does, PLAIN),
            ("", PLAIN),
            (worker.hostname, DIM),
        )
        yield Row(worker.id, cells, queue=worker.queue, job=worker.current_job)


def _slot_row(slot: Slot, worker: Worker | None, job: Job | None, status: str, host: str, now: Instant) -> Row:
    history = slot.history
    since = worker.registered_at if worker and status == workers.STARTING else history.failed_at
    if job is not None:
        does, since = (job.title, PLAIN), job.claimed_at
    elif slot.status == slots.FAILED:
        does = f"{history.failure_reason}; x resets it", BAD
    elif slot.status == slots.BACKOFF:
        does = f"starts again in {span((slot.start_at or now) - now + SECOND)}", WARN
    elif worker is None and slot.status != slots.STARTING:
        does = "nobody fills it" if status == slots.EMPTY else "", DIM
    else:
        does = "", PLAIN
    lately = f" ({len(history.restarts)} now)" if history.restarts else ""
    restarts = f"{history.lifetime}{lately}" if history.lifetime else ""
    cells = _cells(
        (slot.name, PLAIN),
        (status, _TONES.get(status, PLAIN)),
        (ago(since, now), PLAIN),
        (_id(worker.current_job if worker else None), PLAIN),
        does,
        (restarts, WARN if history.restarts else DIM),
        (host, DIM),
    )
    return Row(slot.name, cells, slot.queue, slot.name, worker.current_job if worker else None)


def held_rows(look: Look, now: Instant) -> Iterator[Row]:
    """The jobs in hand: who has each, and for how long; the longest first."""
    filled = {slot.worker: slot.name for slot in look.slots if slot.worker}
    for job in sorted(look.held, key=lambda job: job.claimed_at or 0):
        slot = filled.get(job.worker_id or "")
        cells = _cells(
            (str(job.id), PLAIN),
            (ago(job.claimed_at, now), PLAIN),
            _attempt(job.attempts + 1, job),
            (job.title, PLAIN),
            (slot or job.worker_id or "", PLAIN),
            (job.queue, PLAIN),
        )
        yield Row(str(job.id), cells, job.queue, slot, job.id)


def listed_rows(look: Look, now: Instant) -> Iterator[Row]:
    """Jobs as they were asked for, the newest first."""
    for job in look.listed:
        is_active = job.status == jobs.ACTIVE
        cells = _cells(
            (str(job.id), PLAIN),
            (job.status, _TONES.get(job.status, PLAIN)),
            (ago(job.claimed_at if is_active else job.finished_at or job.created_at, now), PLAIN),
            _attempt(job.attempts + is_active, job),
            (f"{job.title}: {job.error}" if job.error and not is_active else job.title, PLAIN),
            (job.queue, PLAIN),
        )
        yield Row(str(job.id), cells, job.queue, None, job.id)


def _attempt(number: int, job: Job) -> Cell:
    return f"{number}/{job.max_attempts}", WARN if number > 1 else DIM


def death_rows(look: Look, now: Instant) -> Iterator[Row]:
    """The workers that died last, newest first."""
    for id, death in look.deaths:
        yield Row(id, _cells(*_death(id, death, now)), slot=death.slot, job=death.job)


def _death(id: str, death: Certificate, now: Instant) -> tuple[Cell, ...]:
    return (
        (ago(death.died_at, now), PLAIN),
        (death.slot or id, PLAIN),
        (death.reason, BAD),
        (_id(death.job), PLAIN),
        (death.text or "", PLAIN),
    )


def places(look: Look, queue: str, slot: str | None) -> list[tuple[Place, int]]:
    """Where a queue can be scaled, by crew and host, and how many slots it has there.

    The crew of the slot, if one is chosen; else those that have slots of the queue, else those that run.
    """
    wanted = [each for each in look.slots if each.queue == queue and each.wanted]
    found = [each for each in wanted if each.name == slot] or wanted
    crews = {(each.crew, each.host) for each in found} or {(each.crew, each.host) for each in look.live}
    return [(place, sum((each.crew, each.host) == place for each in wanted)) for place in sorted(crews)]


def no_place(queue: str, found: list[tuple[Place, int]]) -> str:
    """Why it is not clear where to scale a queue."""
    if not found:
        return "no crew is running: `rota orchestrator start` begins one"
    return (
        f"several crews could serve {queue}: choose one of its slots, or use `rota scale {queue}=N --crew … --host …`"
    )


def matching(rows: Iterable[Row], text: str) -> list[Row]:
    """Those that say this somewhere, in whatever case."""
    wanted = text.casefold()
    return [row for row in rows if not wanted or any(wanted in cell.casefold() for cell, _ in row.cells)]


def _number(number: int, tone: str) -> Cell:
    return count(number), tone if number else DIM


def _id(job: int | None) -> str:
    return "" if job is None else str(job)


def _cells(*cells: Cell) -> tuple[Cell, ...]:
    return tuple((printable(text), tone) for text, tone in cells)
