"""A cable between a program and PostgreSQL that can be cut at the worst moment."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

from tests.support.postgres import with_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMIT = b"COMMIT\0"
CUT_BEFORE, CUT_AFTER, HOLD, STALL = "before", "after", "hold", "stall"


class Cable:
    """A proxy that forwards bytes. `fault` is what happens to the next commit, once.

    `before`: the link breaks and the server never gets it. `after`: the server commits, and its answer is lost. `hold`:
    the client's side breaks, and the commit reaches the server only when `release` is set. `stall`: the server commits,
    its answer does not come, and the link stays open.
    """

    def __init__(self, url: str) -> None:
        known = conninfo_to_dict(url)
        self._server = (str(known["host"]), int(str(known["port"])))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = with_parts(url, host="127.0.0.1", port=str(self._listener.getsockname()[1]))
        self.fault: str | None = None
        self.faults = 0
        self.down = False
        self.refused = 0
        self.release = threading.Event()
        self._links: list[socket.socket] = []

    def accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.down:
                self.refused += 1
                client.close()
                continue
            server = socket.create_connection(self._server)
            self._links += [client, server]
            met: list[str] = []
            threading.Thread(target=self._to_server, args=(client, server, met), daemon=True).start()
            threading.Thread(target=self._to_client, args=(server, client, met), daemon=True).start()

    def cut(self) -> None:
        """Close every connection."""
        for link in self._links:
            _close(link)
        self._links.clear()

    def close(self) -> None:
        # An accept that waits is not woken by close alone.
        _close(self._listener)
        self.release.set()
        self.cut()

    def _to_server(self, client: socket.socket, server: socket.socket, met: list[str]) -> None:
        for data in _chunks(client):
            fault = self.fault if COMMIT in data else None
            if fault is not None:
                self.fault = None
                met.append(fault)
                self.faults += 1
            if fault == CUT_BEFORE:
                break
            if fault == HOLD:
                _close(client)
                self.release.wait(60)
            try:
                server.sendall(data)
            except OSError:
                break
        _close(client)
        _close(server)

    def _to_client(self, server: socket.socket, client: socket.socket, met: list[str]) -> None:
        for data in _chunks(server):
            if CUT_AFTER in met:  # this answers the commit: it is done
                break
            if met:
                continue
            try:
                client.sendall(data)
            except OSError:
                continue
        _close(client)
        _close(server)


def _chunks(link: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = link.recv(65536)
        except OSError:
            return
        if not data:
            return
        yield data


def _close(link: socket.socket) -> None:
    try:
        link.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    link.close()


@contextmanager
def cable(url: str) -> Iterator[Cable]:
    laid = Cable(url)
    thread = threading.Thread(target=laid.accept, daemon=True)
    thread.start()
    try:
        yield laid
    finally:
        laid.close()
        thread.join(10)
