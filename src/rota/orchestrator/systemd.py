"""Telling systemd that the crew is ready, alive and stopping, where it asks to be told."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Notify:
    """Speaks to the socket that `NOTIFY_SOCKET` names; without one it is silent."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "").replace("@", "\0", 1)
        wanted = environment.get("WATCHDOG_USEC", "")
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._every = int(wanted) / 2e6 if self._address and wanted.isdigit() and mine else None
        self._due = 0.0 if self._every is not None else float("inf")

    def ready(self, status: str) -> None:
        self._say(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        self._say("STOPPING=1")

    def tick(self) -> float:
        """Say that we live, if it is time; when to come again, on the monotonic clock."""
        now = time.monotonic()
        if self._every is not None and now >= self._due:
            self._due = now + self._every
            self._say("WATCHDOG=1")
        return self._due

    def _say(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaker:
                speaker.sendto(text.encode(), self._address)
        except OSError:  # supervision goes on, whoever listens
            pass
