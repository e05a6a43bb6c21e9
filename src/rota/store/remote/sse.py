"""Server-sent events of the API: notifications for programs that wait, and the documents of the live feed."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from rota.core.errors import RotaError, StoreAway
from rota.core.jsontext import decode
from rota.store.engine.listening import Listening
from rota.store.remote.client import LONGEST_PAUSE, PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from rota.store.remote.client import Link
    from rota.store.remote.http_connection import Connection

SILENT_FOR = 40.0  # twice as long as the API is ever silent, and a little more
LOOK_AGAIN = 0.5
_TOPICS = ("queue:*",)  # jobs move, or a queue is resumed


class OrchestratorListener(Listening["Connection"]):
    """Listens from the moment it is made; `path` changes when the orchestrator joins again under a new id."""

    def __init__(self, link: Link, path: Callable[[], str]) -> None:
        self._link = link
        self._path = path
        super().__init__(SILENT_FOR)

    def open_line(self) -> Connection | None:
        try:
            return self._link.stream(self._path())
        except RotaError:
            return None

    def rang(self, line: Connection) -> bool | None:
        """Return whether the stream goes on; whatever comes over it is a notification."""
        try:
            return line.drain() or None
        except OSError:
            return None


class FeedListener:
    """Wakes when something may have changed. A token that may not read the feed wakes every half second instead."""

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


def follow(link: Link, patterns: Sequence[str], after: str | None) -> Iterator[dict[str, Any]]:
    """Yield the documents of the feed without end. A broken stream resumes where it was, if the API is back soon."""
    return _follow(link, tuple(patterns), after, _open(link, tuple(patterns), after))


def _follow(
    link: Link, patterns: tuple[str, ...], last: str | None, connection: Connection
) -> Iterator[dict[str, Any]]:
    while True:
        try:
            for document in _documents(connection):
                last = document["id"]
                yield document
        except (OSError, ValueError):
            # Broken, or silent for longer than its keep-alives allow.
            pass
        finally:
            connection.close()
        connection = _open_again(link, patterns, last)


def _open(link: Link, patterns: tuple[str, ...], last: str | None) -> Connection:
    return link.stream("/events", last, topics=patterns or None)


def _open_again(link: Link, patterns: tuple[str, ...], last: str | None) -> Connection:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return _open(link, patterns, last)
        except StoreAway:
            if time.monotonic() > deadline:
                raise
            time.sleep(LONGEST_PAUSE)


def _documents(connection: Connection) -> Iterator[dict[str, Any]]:
    """Yield the documents of events without a name. Named ones, such as `alive`, carry no facts."""
    rest, is_named = b"", False
    for piece in connection.pieces():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if not line:
                is_named = False
            elif line.startswith(b"event:"):
                is_named = True
            elif line.startswith(b"data: ") and not is_named:
                yield decode(line[6:].decode())
