"""A stop has its steps, each with its time."""

from __future__ import annotations

import signal

from rota.core.times import SECOND
from rota.orchestrator.shutdown import Shutdown


def test_twenty_seconds_to_finish_then_five_after_sigterm_then_sigkill() -> None:
    stopping = Shutdown(0, 20 * SECOND)
    assert stopping.due(20 * SECOND - 1) is None
    assert stopping.due(20 * SECOND) == signal.SIGTERM
    assert stopping.due(25 * SECOND - 1) is None
    assert stopping.due(25 * SECOND) == signal.SIGKILL
    assert stopping.due(25 * SECOND + SECOND // 2) == signal.SIGKILL


def test_asked_twice_it_kills_at_once() -> None:
    stopping = Shutdown(0, 20 * SECOND)
    stopping.hurry(SECOND)
    assert stopping.due(SECOND) == signal.SIGKILL
