"""The bell over the API: its event stream, of which only that something came is heard."""

from __future__ import annotations

import select
import time

from rota.core.errors import RotaError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.remote.client import Link
    from rota.store.remote.http_connection import Connection

LOOK_AGAIN = 0.5
_TOPICS = ("queue:*",)  # jobs move, or a queue is resumed


class FeedListener:
    """Wakes when something may have changed. Without the stream, for a token that may not read, it wakes by itself."""

    def __init__(self, link: Link, events: bool) -> None:
        self._link = link
        self._topics = () if events else _TOPICS
        self._connection: Connection | None = None
        self._again_at = 0.0
        self._open()

    def wait(self, seconds: float) -> bool:
        self._open()
        if self._connection is None:
            time.sleep(max(0.0, min(seconds, LOOK_AGAIN)))
            return True
        if not select.select([self._connection], [], [], max(0.0, seconds))[0]:
            return False
        self.clear()
        return True

    def fileno(self) -> int:
        return -1 if self._connection is None else self._connection.fileno()

    def clear(self) -> None:
        try:
            if self._connection is not None and not self._connection.drain():
                self.close()
        except OSError:
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> None:
        """Open the stream, now and then; a lost one costs time, never work."""
        if self._connection is None and time.monotonic() >= self._again_at:
            self._again_at = time.monotonic() + 1.0
            try:
                self._connection = self._link.stream("/events", topics=self._topics or None)
            except RotaError:
                pass
