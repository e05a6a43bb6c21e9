"""Lines of text: the head of the screen, the charts, one job, a death certificate.

Pure: the time is passed in, and no text returned here can control a terminal.
"""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

from rota.core import claim as claims
from rota.core import job as jobs
from rota.core.ids import printable
from rota.core.jsontext import sound
from rota.core.times import SECOND, format_duration, format_instant
from rota.live import system_health
from rota.live.throughput import RATE_OVER, STEP, STEPS
from rota.top.tables import BAD, BUSY, DIM, GOOD, PLAIN, WARN, ago, bars, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.claim import Run
    from rota.core.times import Instant
    from rota.live.throughput import Throughput
    from rota.store.workers.registration import Certificate
    from rota.top.store_calls import Page, Snapshot
    from rota.top.tables import Cell

    Line = tuple[Cell, ...]

MOST_LINES = 1000
_NAMES = 10
_BESIDE = 17  # the width of a chart's name and rate
_HEALTH = {system_health.HEALTHY: ("●", GOOD), system_health.DEGRADED: ("▲", WARN), system_health.ERROR: ("✖", BAD)}
_TONES = {
    **dict.fromkeys((jobs.DONE, claims.COMPLETED), GOOD),
    **dict.fromkeys((jobs.FAILED, claims.EXPIRED), BAD),
    **dict.fromkeys((jobs.ACTIVE, jobs.READY), BUSY),
    **dict.fromkeys((jobs.BLOCKED, claims.RELEASED), WARN),
}


def head_line(snapshot: Snapshot | None, trouble: str | None, filtered: str, width: int) -> Line:
    """Return the head of the screen: the system's health, its workers and its database, or why that is not known."""
    line: list[Cell] = [(" rota top ", BUSY)]
    if trouble is not None or snapshot is None:
        return *line, (f" ✖ {printable(trouble)}" if trouble else " looking …", BAD if trouble else DIM)
    mark, tone = _HEALTH[snapshot.health]
    busy = sum(worker.current_job is not None for worker in snapshot.workers)
    hosts = len({crew.host for crew in snapshot.live})
    line.append((f" {mark} {snapshot.health}", tone))
    if snapshot.live or snapshot.workers:
        line.append((f"  {busy} of {len(snapshot.workers)} workers busy", PLAIN))
    else:
        line.append(("  no orchestrator is running", WARN))
    line += [(f"  {hosts} hosts", PLAIN)] if hosts > 1 else []
    line += [(f"  {printable(filtered)}", WARN)] if filtered else []
    used, where = sum(len(text) for text, _ in line), printable(snapshot.where)
    room = width - used - 3
    where = where if len(where) <= room else f"…{where[1 - room :]}" if room > 8 else ""
    return *line, (" " * (width - used - len(where) - 1), PLAIN), (where, DIM)


def throughput_lines(throughput: Throughput, now: Instant, width: int, height: int) -> list[Line]:
    """Return the charts of done and failed jobs side by side, `height` lines high, with the current rates."""
    room = min(STEPS, max(4, (width - 2 * _BESIDE) // 2))
    done, failed = throughput.finished(now, room), throughput.failed(now, room)
    failing = sum(throughput.failed(now, RATE_OVER)) / (RATE_OVER * STEP / SECOND)
    rates = f"{rate(sum(throughput.rates(now).values())):<7}", f"{rate(failing):<7}"
    lines: list[Line] = []
    for n, (left, right) in enumerate(zip(bars(done, height), bars(failed, height), strict=True)):
        is_last = n == height - 1
        names, now_at = (
            (" done   ", "  failed ") if is_last else (" " * 8, " " * 9),
            rates if is_last else (" " * 7, ""),
        )
        lines.append(
            (
                (names[0], DIM),
                (left, BUSY),
                (f" {now_at[0]}", PLAIN),
                (names[1], DIM),
                (right, BAD),
                (f" {now_at[1]}", PLAIN),
            )
        )
    return lines


def job_lines(page: Page, now: Instant, width: int) -> list[Line]:
    """Return the page of a job: why it has its status, its fields, its runs, its payload and its result."""
    job = page.job
    lines: list[Line] = [*wrapped(page.why, width, PLAIN), ()]
    lines += [_field(name, value, tone) for name, value, tone in _fields(page, now) if value]
    if page.runs:
        lines += [(), (("Runs", BUSY),), *(_run(run) for run in page.runs)]
    for name, text in (("Payload", job.payload_json), ("Result", job.result_json), ("Checkpoint", job.checkpoint_json)):
        if text is not None:
            lines += [(), ((name, BUSY),), *_json(text, width)]
    for name, text in (("Error", job.error), ("Note", job.note)):
        if text:
            lines += [(), ((name, BUSY),), *_text(text, width)]
    return lines


def death_lines(death: Certificate, now: Instant, width: int) -> list[Line]:
    """Return the page of a death certificate."""
    fields = (
        ("slot", death.slot),
        ("died", _when(death.died_at, now)),
        ("reason", death.reason),
        ("exit code", death.exit_code),
        ("signal", death.signal),
        ("sent by", death.sent_by),
        ("job", death.job),
    )
    lines: list[Line] = [*wrapped(death.text or death.reason, width, BAD), ()]
    lines += [_field(name, str(value), PLAIN) for name, value in fields if value not in (None, "")]
    for name, text in (("Usage", death.usage_json), ("Last frame", death.last_frame), ("Stderr", death.stderr_tail)):
        if text:
            lines += [(), ((name, BUSY),), *_text(text, width)]
    return lines


def _field(name: str, value: str, tone: str) -> Line:
    return (f" {name:<{_NAMES}}", DIM), (printable(value), tone)


def _fields(page: Page, now: Instant) -> Iterator[tuple[str, str, str]]:
    job = page.job
    is_active = job.status == jobs.ACTIVE
    blocked = f" ({job.blocked_on})" if job.blocked_on else ""
    yield "status", job.status + blocked, _TONES.get(job.status, PLAIN)
    yield "queue", job.queue, PLAIN
    yield "kind", job.kind, PLAIN
    yield "attempts", f"{job.attempts} of {job.max_attempts}", PLAIN
    yield "priority", str(job.priority or ""), PLAIN
    yield "worker", (job.worker_id or "") if is_active else "", PLAIN
    yield "running", ago(job.claimed_at, now) if is_active else "", PLAIN
    yield "time-out", format_duration(job.timeout) if job.timeout else "", PLAIN
    yield "added", _when(job.created_at, now), PLAIN
    yield "due", format_instant(job.due_at)[:19] + "Z" if job.due_at and job.status == jobs.SCHEDULED else "", PLAIN
    yield "finished", _when(job.finished_at, now), PLAIN
    yield "after", ", ".join(map(str, job.after)), PLAIN
    yield "parent", str(job.parent or ""), PLAIN
    yield "children", ", ".join(map(str, job.children)), PLAIN
    yield "source", job.source or "", PLAIN
    yield "key", job.key or "", PLAIN


def _when(instant: Instant | None, now: Instant) -> str:
    return "" if instant is None else f"{format_instant(instant)[:19]}Z, {ago(instant, now)} ago"


def _run(run: Run) -> Line:
    reason = ": ".join(text for text in (run.reason, run.error or run.note) if text)
    took = format_duration(max(0, run.ended_at - run.claimed_at))
    head = f" {run.id}  try {run.attempt}  {run.worker_id}  {took:>7}  "
    return (head, PLAIN), (f"{run.status:<10}", _TONES.get(run.status, PLAIN)), (printable(reason), PLAIN)


def _json(text: str, width: int) -> list[Line]:
    try:
        return _text(json.dumps(sound(text), indent=2, ensure_ascii=False), width)
    except ValueError:
        return _text(text, width)


def _text(text: str, width: int) -> list[Line]:
    folded = [line for part in text.splitlines() for line in wrapped(part, width - 1, PLAIN)]
    hidden = len(folded) - MOST_LINES
    lines: list[Line] = [((" ", PLAIN), *line) for line in folded[:MOST_LINES]]
    return [*lines, ((f" … and {hidden} more lines", DIM),)] if hidden > 0 else lines


def wrapped(text: str, width: int, tone: str) -> list[Line]:
    """Fold a line of text into lines that fit, keeping its indentation."""
    clean = printable(text)
    indent = " " * (len(clean) - len(clean.lstrip()))
    folded = textwrap.wrap(
        clean, max(10, width), subsequent_indent=indent, drop_whitespace=True, replace_whitespace=False
    )
    return [((line, tone),) for line in folded or [""]]
