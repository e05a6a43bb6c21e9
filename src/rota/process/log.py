"""The orchestrator's log on stderr: one line for each fact, with its slot, worker and run."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from rota.core.ids import printable
from rota.core.times import format_instant

if TYPE_CHECKING:
    from rota.core.times import Instant

OWN = "orchestrator"
TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
LARGEST = 16 * 1024 * 1024


class Say(Protocol):
    """The function by which the parts of an orchestrator write to its log."""

    def __call__(self, text: str, slot: str = OWN, worker: str | None = None, run: str | None = None) -> None: ...


class Log:
    """Writes lines as text for people or as JSON for programs."""

    def __init__(self, form: str = TEXT) -> None:
        self._line = _as_json if form == JSON else _as_text

    def __call__(self, text: str, slot: str = OWN, worker: str | None = None, run: str | None = None) -> None:
        at = time.time_ns() // 1000
        try:
            sys.stderr.write(self._line(at, slot, worker, run, text) + "\n")
        except (OSError, ValueError):
            # Nobody reads stderr any more. The log is optional, so keep supervising.
            pass


def keep_small(path: str, most: int = LARGEST) -> None:
    """Empty the log of a crew in the background once it is large; what was in it is beside it, as `.1`.

    Workers write what handlers print to the same file. All append, so they go on at its new beginning.
    """
    if os.fstat(2).st_size < most:
        return
    aside = f"{path}.1.new-{os.getpid()}"
    try:
        fresh = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fresh, "wb") as kept, open(path, "rb") as log:
            shutil.copyfileobj(log, kept)
        os.replace(aside, f"{path}.1")
    except OSError:  # a full disk: the lines are worth less than the room
        with suppress(OSError):
            os.unlink(aside)
    os.ftruncate(2, 0)


def _as_text(at: Instant, slot: str, worker: str | None, run: str | None, text: str) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(at // 1_000_000))
    return f"{clock} {slot:<16} {worker or '-':<15} {run or '-':<12} {printable(text)}"


def _as_json(at: Instant, slot: str, worker: str | None, run: str | None, text: str) -> str:
    return json.dumps({"at": format_instant(at), "slot": slot, "worker": worker, "run": run, "text": printable(text)})
