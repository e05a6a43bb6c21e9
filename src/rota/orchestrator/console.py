"""What `rota run` shows somebody who watches: a line for each fact and for each job that ends, on stdout.

A thread writes, so that a slow terminal or a pipe that nobody reads never holds up the crew.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, assert_never

from rota.core.claim import Done, Failed, Released, Returned, Snoozed
from rota.core.ids import printable
from rota.core.record import Record
from rota.core.source import KIND
from rota.core.times import format_duration
from rota.orchestrator.tracking import Tracked
from rota.process.log import OWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Outcome
    from rota.core.frames.assignment import Assignment
    from rota.tracking.tracker import WorkerRows

MOST_AT_ONCE = 30  # jobs that went well, within a moment: of more, only their number is told
MOMENT = 0.1
LONGEST_RESULT, LONGEST_WAIT = 100, 2.0


class Line(Record):
    """One fact. `ordinary`: a job that went well, which may be one of many."""

    text: str
    ordinary: bool = False


class Console:
    """A `Say` for people. The lines of `head` are written first: they may take a while, and all others wait."""

    def __init__(self, head: Callable[[Console], list[str]]) -> None:
        self._head = head
        self._lines: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="rota-screen", daemon=True)
        self.is_over = threading.Event()
        self._thread.start()

    def __call__(self, text: str, slot: str = OWN, worker: str | None = None, run: str | None = None) -> None:
        self.put(text, slot)

    def put(self, text: str, about: str, ordinary: bool = False) -> None:
        self._lines.put(Line(f"{time.strftime('%H:%M:%S')}  {about:<17} {printable(text)}", ordinary))

    def close(self) -> None:
        """Write what is left, unless nobody takes it."""
        self.is_over.set()
        self._lines.put(None)
        self._thread.join(LONGEST_WAIT)

    def _write_all(self) -> None:
        for text in self._head(self):
            _write(text)
        going = True
        while going:
            found = [self._lines.get()]
            if found[0] is not None:
                self.is_over.wait(MOMENT if found[0].ordinary else 0)
            while not self._lines.empty():
                found.append(self._lines.get())
            going = None not in found
            for text in shown([line for line in found if line is not None]):
                _write(text)


def shown(lines: list[Line]) -> list[str]:
    """The lines of a moment, without those of many jobs that went well."""
    ordinary = [line for line in lines if line.ordinary]
    if len(ordinary) <= MOST_AT_ONCE:
        return [line.text for line in lines]
    kept = [line.text for line in lines if not line.ordinary]
    return [*kept, ordinary[-1].text, f"{'':8}  {'':17} and {len(ordinary) - 1:,} more went well"]


class Shown(Tracked):
    """Show each job that ends on a console."""

    def __init__(self, worker_rows: WorkerRows | None, console: Console) -> None:
        super().__init__(worker_rows)
        self._console = console

    def reported(self, worker: str, held: Assignment, outcome: Outcome) -> None:
        super().reported(worker, held, outcome)
        if not held.kind.startswith(KIND):
            self._console.put(ended(held, outcome), f"job {held.job_id}", isinstance(outcome, Done))


def ended(held: Assignment, outcome: Outcome) -> str:
    """What became of a job, in one line; of a failure, where to read more."""
    name = held.title if held.kind in ("", held.title) else f"{held.kind} ({held.title})"
    match outcome:
        case Done(result):
            return f"{name}: done{f', {_short(result)}' if result is not None else ''}"
        case Failed(error, again):
            last = not again or held.attempt >= held.max_attempts
            spent = f"attempt {held.attempt} of {held.max_attempts}"
            then = f"`rota retry {held.job_id}` once it is mended" if last else "it is tried again"
            return f"{name}: FAILED, {error} · {spent}, {then}; `rota show {held.job_id}` has its runs"
        case Snoozed(delay, note):
            return f"{name}: again in {format_duration(delay)}{f', {note}' if note else ''}"
        case Released(note):
            return f"{name}: given back{f', {note}' if note else ''}"
        case Returned():
            return f"{name}: given back"
        case other:
            assert_never(other)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_RESULT else f"{text[:LONGEST_RESULT]}…"


def _write(text: str) -> None:
    """Write to the descriptor itself: the interpreter's exit must not wait for a stream that this thread holds."""
    data = f"{text}\n".encode(sys.stdout.encoding, "backslashreplace")
    try:
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]
    except (OSError, ValueError):
        # The terminal was closed. Output is optional, so keep supervising.
        pass
