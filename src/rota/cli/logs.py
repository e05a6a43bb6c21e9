"""`logs`: what the code of a run wrote, from where it said that it would write."""

from __future__ import annotations

import codecs
import os
import stat
import sys
import time

from rota.cli.call import write
from rota.core.errors import BadInput, NotFound, RotaError
from rota.core.ids import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.cli.call import Call
    from rota.core.claim import Captured
    from rota.store.store import Store

    Put = Callable[[bytes], None]

CHUNK = 64 * 1024
LARGEST_TEXT = 256 * 1024
LOOK_AGAIN = 0.2


def logs(call: Call) -> int:
    """The captured output of a job's newest run, or of the one named."""
    if call.json and call["follow"]:
        raise BadInput("--follow prints the output as it comes, which is no JSON: leave one of them out")
    stream = "stderr" if call["stderr"] else "transcript"
    with call.store() as store:
        captured = store.claims.captured(call["id"], call["run"])
        if call["follow"]:
            _follow(store, call["id"], captured.run_id, stream, _put(call))
            return 0
    path = _path(captured, stream)
    with _Output(path) as output:
        if output.size is None:
            raise _missing(captured, stream, path)
        if call.json:
            named = {"job_id": call["id"], "run_id": captured.run_id, "stream": stream, "path": path}
            call.document({**named, "size": output.size, "text": output.tail()})
        else:
            output.copy(_put(call), 0)
    return 0


def _follow(store: Store, id: int, run: str, stream: str, put: Put) -> None:
    """Copy what is there and what is added, until the run is over. Its file may appear late."""
    offset: int | None = None
    while True:
        store.tend()
        captured = store.claims.captured(
            id, run
        )  # asked before reading, so that nothing written before the end is missed
        path = _path(captured, stream) if not captured.is_live else getattr(captured, f"{stream}_path")
        if path is not None:
            with _Output(path) as output:
                if output.size is not None:
                    offset = output.copy(put, offset or 0)
        if not captured.is_live:
            if offset is None:
                raise _missing(captured, stream, path)
            return
        time.sleep(LOOK_AGAIN)


class _Output:
    """A captured file, opened to be read; `size` is None when it is not there."""

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self.size: int | None = None
        try:  # a pipe that stands in its place is not waited for
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._descriptor)
            raise RotaError(f"{path} is not a regular file, so it is not what a run wrote")
        self.size = found.st_size

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        if self.size is not None:
            os.close(self._descriptor)

    def copy(self, put: Put, offset: int) -> int:
        """Put out what stands from `offset` to the end as it was when opened, a piece at a time; where that is."""
        assert self.size is not None
        if offset > self.size:  # it was written anew
            offset = 0
        while offset < self.size and (data := os.pread(self._descriptor, min(CHUNK, self.size - offset), offset)):
            put(data)
            offset += len(data)
        return offset

    def tail(self) -> str:
        """The last part of it as text."""
        assert self.size is not None
        return os.pread(self._descriptor, LARGEST_TEXT, max(0, self.size - LARGEST_TEXT)).decode("utf-8", "replace")


def _path(captured: Captured, stream: str) -> str:
    path: str | None = getattr(captured, f"{stream}_path")
    if path is None:
        raise NotFound(f"{captured.run_id} did not say where it writes its {stream}: its capture_io names that")
    return path


def _missing(captured: Captured, stream: str, path: str | None) -> NotFound:
    when = "is not there yet" if captured.is_live else "is gone"
    return NotFound(f"{path}, the {stream} of {captured.run_id}, {when}")


def _put(call: Call) -> Put:
    """As it is to a pipe; to a terminal as text that cannot steer it."""
    if not call.on_terminal:
        return _put_raw
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda data: write("\n".join(map(printable, decode(data).replace("\r", "").split("\n"))))


def _put_raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
