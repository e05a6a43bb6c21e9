"""How programs write to the ledger: a line is on disk before the call returns.

    python -m rota.lab.chaos.ledger_writer PID

records the life of a bash loop, which cannot keep a connection open itself.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from typing import IO, Any

from rota.core.errors import RotaError

LEDGER = "ROTA_CHAOS_LEDGER"


class LedgerWriter:
    """One program's connection to the ledger."""

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


def main() -> None:
    """Record that a bash loop is up, and keep the connection open until it ends."""
    pid = int(sys.argv[1])
    try:
        loop = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    os.setsid()  # A SIGKILL to the loop's process group must not end us with it.
    writer = LedgerWriter.connect(os.environ[LEDGER])
    writer.write("up", pid=pid, worker=os.environ["ROTA_WORKER_ID"], slot=os.environ["ROTA_SLOT"])
    select.select([loop], [], [])


if __name__ == "__main__":
    main()
