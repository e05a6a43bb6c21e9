"""The orchestrator's log on stderr: one line a fact, with the slot, worker and run it speaks of."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Protocol

from rota.core.ids import printable
from rota.core.times import format_instant

if TYPE_CHECKING:
    from rota.core.times import Instant

OWN = "orchestrator"
TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)


class Say(Protocol):
    """What the parts of an orchestrator call to tell people something."""

    def __call__(self, text: str, slot: str = OWN, worker: str | None = None, run: str | None = None) -> None: ...


class Log:
    """Writes lines as text for people or as JSON for programs."""

    def __init__(self, form: str = TEXT) -> None:
        self._line = _as_json if form == JSON else _as_text

    def __call__(self, text: str, slot: str = OWN, worker: str | None = None, run: str | None = None) -> None:
        at = time.time_ns() // 1000
        try:
            sys.stderr.write(self._line(at, slot, worker, run, text) + "\n")
        except (OSError, ValueError):  # nobody reads any more; the crew goes on
            pass


def _as_text(at: Instant, slot: str, worker: str | None, run: str | None, text: str) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(at // 1_000_000))
    return f"{clock} {slot:<16} {worker or '-':<15} {run or '-':<12} {printable(text)}"


def _as_json(at: Instant, slot: str, worker: str | None, run: str | None, text: str) -> str:
    return json.dumps({"at": format_instant(at), "slot": slot, "worker": worker, "run": run, "text": printable(text)})
