"""How programs write into the ledger: a line is on the disk before the call returns."""

from __future__ import annotations

import json
import socket
from typing import IO, Any

from rota.core.errors import RotaError

LEDGER = "ROTA_CHAOS_LEDGER"


class LedgerWriter:
    """One writer's connection."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    def connect(cls, path: str) -> LedgerWriter:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(path)
        return cls(connection.makefile("rb"), connection.makefile("wb"))

    def write(self, what: str, **facts: Any) -> int:
        """Write a line; the moment at which the ledger had it, on its clock."""
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
