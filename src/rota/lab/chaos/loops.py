"""The bash loops of a storm. Nobody keeps them alive but the storm itself, as a service manager would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from rota.lab.chaos.plan import LOOPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SCRIPT = os.path.join(os.path.dirname(__file__), "loop.sh")
STOP_WITHIN = 30.0


class Loops:
    """So many loops, each in a process group of its own."""

    def __init__(self, count: int, folder: str, reach: Callable[[], Mapping[str, str]]) -> None:
        self._names = [f"loop:{n}" for n in range(count)]
        self._folder = folder
        self._reach = reach
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for name in self._names:
            self._start(name)

    def look(self) -> None:
        """One that has ended, however that came, is started again."""
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                self._start(name)

    def send(self, pid: int, number: signal.Signals) -> bool:
        """Signal a loop and its command; SIGTERM the loop alone, whose trap lets the command end. False: it is gone."""
        for process in self._running.values():
            if process.pid == pid and process.poll() is None:  # not reaped, so the number is still its own
                (os.kill if number == signal.SIGTERM else os.killpg)(pid, number)
                return True
        return False

    def stop(self) -> bool:
        """Ask all to leave, and wait; false when one did not."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_WITHIN
        try:
            for process in self._running.values():
                process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        self._running.clear()
        return True

    def kill(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._running.clear()

    def _start(self, name: str) -> None:
        self._running[name] = subprocess.Popen(
            ["bash", SCRIPT, sys.executable, LOOPS, name],
            cwd=self._folder,
            env=self._reach(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
