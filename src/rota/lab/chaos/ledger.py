"""The ledger: what handlers really did, in a file of its own, independent of rota's store.

    python -m rota.lab.chaos.ledger FILE SOCKET

Workers write over the socket, the program that started the ledger over its standard input and output, both in JSON
lines. A line is stamped, written and synced before it is answered. The end of a connection is the end of that worker or
command, and becomes a line too. The ledger ends with its standard input. Programs write with a `LedgerWriter`.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from typing import IO, Any

from rota.core.errors import RotaError

GONE, OVER = "gone", "over"
LEDGER = "ROTA_CHAOS_LEDGER"


class Connection:
    """A program that writes: over a socket, or over the pair of pipes of the program that started the ledger."""

    def __init__(self, read_from: int, write_to: int, connection: socket.socket | None = None) -> None:
        self.read_from = read_from
        self.write_to = write_to
        self._connection = connection
        self._rest = b""
        self.last_line: dict[str, Any] | None = None
        self.lines: list[dict[str, Any]] = []
        self.ended = False

    def read(self) -> None:
        """Take in what has arrived."""
        try:
            data = os.read(self.read_from, 1 << 16)
        except ConnectionResetError:  # it died before it read its last answer
            data = b""
        self.ended = not data
        *whole, self._rest = (self._rest + data).split(b"\n")
        self.lines = [json.loads(line) for line in whole]
        for line in self.lines:
            if line["what"] == "up":
                self.last_line = {"what": GONE, "pid": line["pid"], "worker": line["worker"]}
            elif line.get("own"):
                self.last_line = {"what": OVER, "pid": line["pid"], "worker": line["worker"], "token": line["token"]}

    def answer(self, at: int) -> None:
        try:
            os.write(self.write_to, b"".join(b'{"at":%d}\n' % at for _ in self.lines))
        except OSError:  # it has died; the end of its connection is noticed by the next read
            pass

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class LedgerServer:
    """Serves its connections, with one sync for all lines that arrive together."""

    def __init__(self, path: str, socket_path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(socket_path)
        self._listener.listen(128)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def serve(self, owner: Connection) -> None:
        """Write until the owner closes its connection."""
        self._selector.register(owner.read_from, selectors.EVENT_READ, owner)
        while not owner.ended:
            readable: list[Connection] = []
            for key, _ in self._selector.select():
                if key.data is None:
                    accepted, _ = self._listener.accept()
                    connection = Connection(accepted.fileno(), accepted.fileno(), accepted)
                    self._selector.register(accepted, selectors.EVENT_READ, connection)
                else:
                    key.data.read()
                    readable.append(key.data)
            self._record(readable)

    def _record(self, readable: list[Connection]) -> None:
        """Write what was read: ended connections first, because others may already act on these deaths."""
        at = time.monotonic_ns() // 1000
        lines: list[dict[str, Any]] = []
        for connection in sorted(readable, key=lambda connection: not connection.ended):
            lines += connection.lines
            if connection.ended:
                self._selector.unregister(connection.read_from)
                connection.close()
                if connection.last_line is not None:
                    lines.append(connection.last_line)
        if lines:
            os.write(self._file, b"".join(json.dumps({"at": at, **line}).encode() + b"\n" for line in lines))
            os.fsync(self._file)
        for connection in readable:
            if connection.lines and not connection.ended:
                connection.answer(at)


class LedgerWriter:
    """One program's connection to the ledger. A line is on disk before `write` returns."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    def connect(cls, path: str) -> LedgerWriter:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(path)
        return cls(connection.makefile("rb"), connection.makefile("wb"))

    def write(self, what: str, **facts: Any) -> int:
        """Write a line, and return the moment of its arrival on the ledger's clock."""
        try:
            self._writer.write(json.dumps({"what": what, **facts}).encode() + b"\n")
            self._writer.flush()
            answer = self._reader.readline()
        except OSError as problem:
            raise RotaError(f"the ledger is gone: {problem.strerror}") from None
        if not answer:
            raise RotaError("the ledger is gone")
        at: int = json.loads(answer)["at"]
        return at


if __name__ == "__main__":
    LedgerServer(*sys.argv[1:]).serve(Connection(0, 1))
