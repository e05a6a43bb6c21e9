"""`logs`: the captured output of a run."""

from __future__ import annotations

import codecs
import sys
import time

from rota.cli.invocation import write
from rota.cli.verb import Option, verb
from rota.cli.verbs.claims import JOB
from rota.core.errors import BadInput
from rota.core.ids import printable
from rota.store.jobs.output import LARGEST_TEXT, Output, missing, path_of, path_so_far, refuse_elsewhere

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.cli.invocation import Call
    from rota.store.remote.client import Link
    from rota.store.store import Store

    Put = Callable[[bytes], None]

LOOK_AGAIN = 0.2
WAIT = 20


@verb(
    "logs",
    "what the code of a job's newest run wrote, where its capture_io said that it would",
    "rota logs 5 --follow",
    (JOB,),
    (
        Option("--run", "this run instead, such as run-0000002s", "RUN"),
        Option("--stderr", "its errors instead of its transcript"),
        Option("--follow", "go on as more is written, until the run is over"),
    ),
)
def logs(call: Call) -> int:
    if call.json and call["follow"]:
        raise BadInput("--follow prints the output as it comes, which is no JSON: leave one of them out")
    stream = "stderr" if call["stderr"] else "transcript"
    with call.store() as store:
        if store.link is not None:
            return _over_http(call, store.link, stream)
        captured = store.claims.captured(call["id"], call["run"])
        if call["follow"]:
            _follow(store, call["id"], captured.run_id, stream, _put(call))
            return 0
    path = path_of(captured, stream)
    with Output(path, captured.is_own) as output:
        if output.size is None:
            with call.store() as store:
                refuse_elsewhere(store, call["id"], captured)
            raise missing(captured, stream, path)
        if call.json:
            named = {"job_id": call["id"], "run_id": captured.run_id, "stream": stream, "path": path}
            call.document({**named, "size": output.size, "text": output.tail()})
        else:
            output.copy(_put(call), 0)
    return 0


def _over_http(call: Call, link: Link, stream: str) -> int:
    """Print the output of a run from the API of the host that has its files, one part at a time."""
    query = {"run": call["run"], "stream": stream, "limit": LARGEST_TEXT}
    where = f"/jobs/{call['id']}/output"
    if call.json:
        part = link.get(where, **query)
        call.document({name: part[name] for name in ("job_id", "run_id", "stream", "host", "size", "text")})
        return 0
    put, offset = _put(call), 0
    while True:
        part = link.get(where, **query, offset=offset, wait=WAIT if call["follow"] else 0)
        query["run"] = part["run_id"]
        put(part["text"].encode())
        offset = part["next"]
        if offset >= part["size"] and not (part["is_live"] and call["follow"]):
            return 0


def _follow(store: Store, id: int, run: str, stream: str, put: Put) -> None:
    """Copy the output until the run is over. The file may appear late."""
    offset: int | None = None
    while True:
        store.tick()
        # Asked before the file is read, so that nothing written before the end of the run is missed.
        captured = store.claims.captured(id, run)
        path = path_so_far(captured, stream)
        if path is not None:
            with Output(path, captured.is_own) as output:
                if output.size is not None:
                    offset = output.copy(put, offset or 0)
        if not captured.is_live:
            if offset is None:
                raise missing(captured, stream, path)
            return
        time.sleep(LOOK_AGAIN)


def _put(call: Call) -> Put:
    """Return a writer: raw bytes to a pipe, text without control characters to a terminal."""
    if not call.on_terminal:
        return _put_raw
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda data: write("\n".join(map(printable, decode(data).replace("\r", "").split("\n"))))


def _put_raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
