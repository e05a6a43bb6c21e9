"""The ledger process: what handlers really did, in a file of its own, independent of rota's store.

    python -m rota.lab.chaos.ledger FILE SOCKET

Workers write over the socket, whoever started it over its standard input and output; both speak JSON lines. A line is
stamped, written and synced before it is answered. The end of a connection is the end of that worker or command, and a
line too. The ledger ends with its standard input.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from typing import Any

GONE, OVER = "gone", "over"


class Connection:
    """One connection, or the pair of pipes of whoever started the ledger."""

    def __init__(self, read_from: int, write_to: int, connection: socket.socket | None = None) -> None:
        self.read_from = read_from
        self.write_to = write_to
        self._connection = connection
        self._rest = b""
        self.last: dict[str, Any] | None = None
        self.lines: list[dict[str, Any]] = []
        self.ended = False

    def read(self) -> None:
        """Take in what has come."""
        try:
            data = os.read(self.read_from, 1 << 16)
        except ConnectionResetError:  # it died before it read its last answer
            data = b""
        self.ended = not data
        *whole, self._rest = (self._rest + data).split(b"\n")
        self.lines = [json.loads(line) for line in whole]
        for line in self.lines:
            if line["what"] == "up":
                self.last = {"what": GONE, "pid": line["pid"], "worker": line["worker"]}
            elif line.get("own"):
                self.last = {"what": OVER, "pid": line["pid"], "worker": line["worker"], "token": line["token"]}

    def answer(self, at: int) -> None:
        try:
            os.write(self.write_to, b"".join(b'{"at":%d}\n' % at for _ in self.lines))
        except OSError:  # it died meanwhile, and the end of its connection will say so
            pass

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class LedgerServer:
    """Serves its writers; one sync for all lines that have come together."""

    def __init__(self, path: str, socket_path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(socket_path)
        self._listener.listen(128)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def serve(self, owner: Connection) -> None:
        """Write until the owner leaves."""
        self._selector.register(owner.read_from, selectors.EVENT_READ, owner)
        while not owner.ended:
            heard: list[Connection] = []
            for key, _ in self._selector.select():
                if key.data is None:
                    connection, _ = self._listener.accept()
                    writer = Connection(connection.fileno(), connection.fileno(), connection)
                    self._selector.register(connection, selectors.EVENT_READ, writer)
                else:
                    key.data.read()
                    heard.append(key.data)
            self._take(heard)

    def _take(self, heard: list[Connection]) -> None:
        """Write down what was heard: the dead first, because what others do now may follow from their death."""
        at = time.monotonic_ns() // 1000
        found: list[dict[str, Any]] = []
        for writer in sorted(heard, key=lambda writer: not writer.ended):
            found += writer.lines
            if writer.ended:
                self._selector.unregister(writer.read_from)
                writer.close()
                if writer.last is not None:
                    found.append(writer.last)
        if found:
            os.write(self._file, b"".join(json.dumps({"at": at, **line}).encode() + b"\n" for line in found))
            os.fsync(self._file)
        for writer in heard:
            if writer.lines and not writer.ended:
                writer.answer(at)


def main() -> None:
    path, socket_path = sys.argv[1:]
    LedgerServer(path, socket_path).serve(Connection(0, 1))


if __name__ == "__main__":
    main()
