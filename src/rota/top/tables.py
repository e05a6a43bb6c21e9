"""The rows of the panes of a snapshot, and the format of their numbers, durations and charts.

Pure: the time is passed in, and no text returned here can control a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core import slot as slots
from rota.core import worker as workers
from rota.core.ids import printable
from rota.core.queue import BREAKER
from rota.core.record import Record
from rota.core.source import is_internal
from rota.core.times import SECOND, format_duration
from rota.live.attention import FAILURES, JOB, QUEUE, RUN, SLOT
from rota.live.system_health import average, eta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rota.core.job import Job
    from rota.core.slot import History
    from rota.core.times import Duration, Instant
    from rota.core.worker import Worker
    from rota.live.throughput import Throughput
    from rota.store.queues import QueueStatus
    from rota.store.workers.registration import Certificate
    from rota.store.workers.slots import Slot
    from rota.top.store_calls import Snapshot

    Cell = tuple[str, str]

EIGHTHS = " ▁▂▃▄▅▆▇█"
GAP = 2
PLAIN, DIM, GOOD, BUSY, WARN, BAD = "plain", "dim", "good", "busy", "warn", "bad"
_TONES = {
    **dict.fromkeys((workers.BUSY, jobs.ACTIVE, jobs.READY), BUSY),
    **dict.fromkeys((workers.IDLE, jobs.DONE, "open"), GOOD),
    **dict.fromkeys((workers.LATE, workers.STOPPING, workers.PAUSED, slots.BACKOFF, jobs.BLOCKED), WARN),
    **dict.fromkeys((slots.FAILED, workers.DEAD, BREAKER), BAD),
    **dict.fromkeys((slots.STARTING, slots.EMPTY, jobs.SCHEDULED, jobs.CANCELLED), DIM),
}
_SPARK = 16


def span(duration: Duration) -> str:
    """Format a duration in whole seconds."""
    return format_duration(max(0, duration) // SECOND * SECOND)


def ago(then: Instant | None, now: Instant) -> str:
    """Return the time since an instant; an empty text if there is none."""
    return "" if then is None else span(now - then)


def rate(per_second: float) -> str:
    """Format a rate: `12/s`, `0.4/s`; a dash for none."""
    if per_second <= 0:
        return "–"
    if per_second < 0.095:
        return f"{per_second * 60:.1f}/m"
    return f"{per_second:.1f}/s" if per_second < 10 else f"{count(round(per_second))}/s"


def count(number: int) -> str:
    """Format a number in at most five places: `4096`, `65.5k`, `1.2M`."""
    if number < 10_000:
        return str(number)
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number * 10 // size / 10}{letter}" if number < 100 * size else f"{number // size}{letter}"
    raise AssertionError(number)


def bars(values: Sequence[int], height: int = 1) -> list[str]:
    """Draw a chart of `height` lines, scaled to the largest value; every value above zero is visible."""
    top = max(values, default=0)
    steps = [0 if not value else max(1, round(value * height * 8 / top)) for value in values]
    return ["".join(EIGHTHS[min(8, max(0, step - 8 * line))] for step in steps) for line in range(height - 1, -1, -1)]


class Column(Record):
    """`least` to `most` places wide; a column that `grows` takes the rest; hidden in a pane below `from_width`."""

    head: str
    least: int
    most: int = 0
    right: bool = False
    grows: bool = False
    from_width: int = 0


def widths(columns: Sequence[Column], needed: Sequence[int], room: int) -> list[int]:
    """Return the width of each column, 0 if it is hidden. `needed` is the width of the widest cell of each.

    If not even the least widths fit, columns at the right are hidden; the first is always shown.
    """
    shown = [column.least if room >= column.from_width else 0 for column in columns]
    # Hide columns at the right until the least widths fit; the first column always stays.
    for n in reversed(range(1, len(shown))):
        if _taken(shown) > room:
            shown[n] = 0
    for n, (column, need) in enumerate(zip(columns, needed, strict=True)):
        if shown[n] and not column.grows:
            shown[n] += max(0, min(need, column.most) - column.least)
    # Take back what is too much, again from the right.
    for n in reversed(range(len(shown))):
        if shown[n]:
            shown[n] = max(columns[n].least, shown[n] - max(0, _taken(shown) - room))
    for n, column in enumerate(columns):
        if column.grows and shown[n]:
            shown[n] += max(0, room - _taken(shown))
    return shown


def _taken(shown: Sequence[int]) -> int:
    visible = [width for width in shown if width]
    return sum(visible) + GAP * max(0, len(visible) - 1)


class Row(Record):
    """One line of a pane.

    `key` identifies it from one snapshot to the next; `queue`, `slot` and `job` are what the keyboard acts on.
    """

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


def attention_rows(snapshot: Snapshot, now: Instant) -> Iterator[Row]:
    """Return a row for each notice that needs a person's attention, worst first."""
    for n, notice in enumerate(snapshot.notices):
        cells = _cells((notice.noun, BAD), (notice.which, PLAIN), (notice.text, PLAIN), (ago(notice.since, now), DIM))
        key = f"{notice.noun} {notice.which}"
        if notice.noun == SLOT:
            queue = next((slot.queue for slot in snapshot.slots if slot.name == notice.which), None)
            yield Row(key, cells, queue=queue, slot=notice.which)
        elif notice.noun == QUEUE:
            yield Row(key, cells, queue=notice.which)
        elif notice.noun == FAILURES:
            # A queue may have several notices of this kind, so its name alone is no key.
            yield Row(f"{key} {n}", cells, queue=notice.which)
        elif notice.noun in (JOB, RUN):
            yield Row(key, cells, job=int(notice.which))
        else:
            yield Row(key, cells)


def queue_rows(snapshot: Snapshot, throughput: Throughput, now: Instant) -> Iterator[Row]:
    """Return a row for each queue: its jobs by status, their rate, and how long the waiting ones will take."""
    rates = throughput.rates(now)
    for status in snapshot.queues:
        if not is_internal(status.queue.name):
            yield _queue_row(status, snapshot, throughput, rates, now)


def _queue_row(
    status: QueueStatus, snapshot: Snapshot, throughput: Throughput, rates: Mapping[str, float], now: Instant
) -> Row:
    name, counts = status.queue.name, status.counts
    able = sum(worker.queue in (None, name) for worker in snapshot.workers)
    pending = sum(counts[state] for state in jobs.WAITING)
    done = counts[jobs.DONE] + sum(source.success_count for source in snapshot.sources if source.queue == name)
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
        (_left(pending, snapshot.took.get(name), able, rates.get(name, 0)), PLAIN),
        (bars(throughput.finished(now, _SPARK, name))[0], BUSY),
        *_state(status),
    )
    return Row(name, cells, queue=name)


def _left(pending: int, took: tuple[int, Duration] | None, able: int, rate: float) -> str:
    """Estimate how long the waiting jobs will take, by how long runs took, or else by the rate."""
    if took is not None and able:
        seconds = eta(pending, average(*took), able)
    else:
        seconds = pending / rate if rate else 0.0
    return span(round(seconds * SECOND)) if seconds else ""


def _state(status: QueueStatus) -> tuple[Cell, Cell]:
    """Return in a word whether jobs may be claimed from a queue, and why not."""
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


def running_jobs(snapshot: Snapshot) -> dict[str, list[Job]]:
    """Return the jobs that each worker runs now, by worker.

    A supervised worker holds a window of claims, of which it runs the first `concurrency` in token order.
    """
    at_once = {worker.id: worker.concurrency for worker in snapshot.workers if worker.orchestrator is not None}
    held: dict[str, list[Job]] = {}
    for job in snapshot.held:
        held.setdefault(job.worker_id or "", []).append(job)
    return {id: sorted(window, key=lambda job: job.token or 0)[: at_once.get(id)] for id, window in held.items()}


def slot_rows(snapshot: Snapshot, now: Instant) -> Iterator[Row]:
    """Return a row for each wanted slot and what it does now, then one for each worker that fills no slot."""
    running, unslotted = running_jobs(snapshot), {worker.id: worker for worker in snapshot.workers}
    live = {(crew.crew, crew.host) for crew in snapshot.live}
    paused = {status.queue.name for status in snapshot.queues if status.paused_by is not None}
    for slot in snapshot.slots:
        worker = unslotted.pop(slot.worker, None) if slot.worker else None
        if slot.queue != slots.HTTP and (slot.wanted or worker):
            host, is_filled = snapshot.hosts.get(slot.host, ""), (slot.crew, slot.host) in live
            if worker is not None:
                cells, job = _doing(slot.name, worker, running, worker.shown(now, slot.queue in paused), now)
            else:
                cells, job = _waiting(slot, slot.status if is_filled else slots.EMPTY, now), None
            yield Row(
                slot.name, _cells(*cells, _restarts(slot.history, snapshot), (host, DIM)), slot.queue, slot.name, job
            )
    for worker in unslotted.values():
        cells, job = _doing(worker.name, worker, running, worker.shown(now, worker.queue in paused), now)
        yield Row(worker.id, _cells(*cells, ("", PLAIN), (worker.hostname, DIM)), worker.queue, job=job)


def _doing(
    name: str, worker: Worker, running: Mapping[str, list[Job]], status: str, now: Instant
) -> tuple[list[Cell], int | None]:
    """Return the first cells of a worker's row, and the job that it runs."""
    held = running.get(worker.id, [])
    job, since, title = worker.current_job, worker.registered_at if status == workers.STARTING else None, ""
    if held:
        more = f" and {len(held) - 1} more" if len(held) > 1 else ""
        job, since, title = held[0].id, held[0].claimed_at, f"{held[0].title}{more}"
    state = status, _TONES.get(status, PLAIN)
    return [(name, PLAIN), state, (ago(since, now), PLAIN), (_id(job), PLAIN), (title, PLAIN)], job


def _waiting(slot: Slot, status: str, now: Instant) -> list[Cell]:
    """Return the first cells of the row of a slot without a worker."""
    match status:
        case slots.FAILED:
            why = f"{slot.history.failure_reason}; x resets it", BAD
        case slots.BACKOFF:
            why = f"starts again in {span((slot.start_at or now) - now + SECOND)}", WARN
        case _:
            why = "nobody fills it" if status == slots.EMPTY else "", DIM
    since = slot.history.failed_at if status == slots.FAILED else None
    return [(slot.name, PLAIN), (status, _TONES.get(status, PLAIN)), (ago(since, now), PLAIN), ("", PLAIN), why]


def _restarts(history: History, snapshot: Snapshot) -> Cell:
    recent = len(snapshot.restarts.within(history.restarts, snapshot.now))
    lately = f" ({recent} now)" if recent else ""
    return f"{history.lifetime}{lately}" if history.lifetime else "", WARN if recent else DIM


def held_rows(snapshot: Snapshot, now: Instant) -> Iterator[Row]:
    """Return a row for each running job: its worker, and for how long; the longest first."""
    filled = {slot.worker: slot.name for slot in snapshot.slots if slot.worker}
    running = [job for window in running_jobs(snapshot).values() for job in window]
    for job in sorted(running, key=lambda job: (job.claimed_at or 0, job.token or 0)):
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


def listed_rows(snapshot: Snapshot, now: Instant) -> Iterator[Row]:
    """Return a row for each job of the selection, the newest first."""
    for job in snapshot.listed:
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


def death_rows(snapshot: Snapshot, now: Instant) -> Iterator[Row]:
    """Return a row for each of the last deaths, newest first."""
    for id, death in snapshot.deaths:
        yield Row(id, _cells(*_death(id, death, now)), slot=death.slot, job=death.job)


def _death(id: str, death: Certificate, now: Instant) -> tuple[Cell, ...]:
    return (
        (ago(death.died_at, now), PLAIN),
        (death.slot or id, PLAIN),
        (death.reason, BAD),
        (_id(death.job), PLAIN),
        (death.text or "", PLAIN),
    )


def matching(rows: Iterable[Row], text: str) -> list[Row]:
    """Return the rows that contain a text, ignoring case."""
    needle = text.casefold()
    return [row for row in rows if not needle or any(needle in cell.casefold() for cell, _ in row.cells)]


def _number(number: int, tone: str) -> Cell:
    return count(number), tone if number else DIM


def _id(job: int | None) -> str:
    return "" if job is None else str(job)


def _cells(*cells: Cell) -> tuple[Cell, ...]:
    return tuple((printable(text), tone) for text, tone in cells)
