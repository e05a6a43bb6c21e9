"""A small connection pool, shared by any number of trackers in a process."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.store.postgres.driver import psycopg
from rota.tracking.postgres import check_url, connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from rota.tracking.postgres import Connection

PATIENCE = 15.0  # seconds; longer than the time-outs that the statements set themselves


class Connections:
    """At most `most` connections to `url`, opened when they are needed and kept while they work.

    A transaction that takes longer than `patience` seconds is cut off. A tracker waits just as long for a free
    connection.

    Example:
        >>> with Connections("postgresql://host/stats", most=4) as connections:
        ...     trackers = [Tracker(connections, "1.4.0").start() for _ in range(100)]
    """

    def __init__(self, url: str, most: int = 1, patience: float = PATIENCE) -> None:
        self._url = check_url(url)
        self._patience = patience
        self._free = threading.BoundedSemaphore(most)
        self._idle: list[Connection] = []

    @contextmanager
    def borrow(self) -> Iterator[Connection]:
        """Borrow a connection for one transaction. After an error it is closed, and so are all idle ones."""
        if not self._free.acquire(timeout=self._patience):
            raise psycopg.OperationalError(f"no connection was free within {self._patience:g} s")
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = connect(self._url)
            try:
                with _cut_after(self._patience, connection):
                    yield connection
            except BaseException:
                connection.close()
                self.close()
                raise
            self._idle.append(connection)
        finally:
            self._free.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections; the next borrower opens a new one."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread took the last
                return


@contextmanager
def _cut_after(seconds: float, connection: Connection) -> Iterator[None]:
    """Shut the socket down when the block takes longer: a server that is stopped, not gone, would never answer."""
    timer = threading.Timer(seconds, _cut, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(connection: Connection) -> None:
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):  # it was closed in the meantime
        pass
