"""The MCP server: its tools, what a model reads about them, and serving them over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from rota import documents
from rota.core.claim import Done, Failed, Released
from rota.core.errors import NothingReady, RotaError
from rota.core.job import NewJob
from rota.core.jsontext import encode
from rota.core.queue import DEFAULT
from rota.core.version import __version__
from rota.mcp.tool_session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.mcp.tool_session import SessionSettings
    from rota.store.store import Store

Document = dict[str, Any]
JobId = Annotated[int, Field(description="the job's id")]
Queue = Annotated[str | None, Field(description="only this queue")]
INSTRUCTIONS = """\
rota is a queue of jobs. Claim one with `claim`; it is yours until you settle it, and is renewed while you are
connected. Its `previous_runs` and `checkpoint` say what earlier attempts found. Do the work, then `finish` it with a
result, `fail` it with the reason (it is tried again while attempts are left), or `release` it unfinished. `add` puts
follow-up jobs into the queue, which may wait for others (`after`). When a tool says that your claim is lost, stop
working on that job."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_RUN = ("id", "attempt", "status", "reason", "error", "note")


def serve(connect: Callable[[], Store], settings: SessionSettings) -> int:
    """Answer until the client closes stdin or a signal comes, then release what the session holds."""
    session = Session(connect, settings)

    def leave() -> None:
        """Exit at once: a thread blocks on stdin and cannot be interrupted."""
        session.close()
        os._exit(0)

    async def answer() -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, leave)
        await server(session).run_stdio_async()

    try:
        anyio.run(answer)
    # The client has closed the pipe.
    except* OSError:
        pass
    finally:
        session.close()
    return 0


def server(session: Session) -> MCPServer[Any]:
    """Make the server of a session, with every tool."""
    mcp_server: MCPServer[Any] = MCPServer(
        "rota", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING", subscriptions=False
    )
    for tool in _tools(session):
        mcp_server.add_tool(_with_tool_errors(tool))
    return mcp_server


def _tools(session: Session) -> list[Callable[..., Document]]:
    def ready(queue: Queue = None, limit: Annotated[int, Field(ge=1, le=100)] = 10) -> Document:
        """List the jobs that can be claimed now, best first."""
        with session.store() as store:
            return {"jobs": [documents.job(job) for job in store.jobs.ready(session.bound(queue), limit)]}

    def claim(
        job_id: Annotated[int | None, Field(description="this job; without it the best there is")] = None,
        queue: Queue = None,
    ) -> Document:
        """Take a job: it is yours alone until you finish, fail or release it. `job` is null when nothing is ready."""
        try:
            claimed = session.claim(job_id, queue)
        except NothingReady as problem:
            return {"job": None, "why": str(problem)}
        return {"job": _whole(session, claimed.job_id), "claim": documents.claim(claimed)}

    def show(job_id: JobId) -> Document:
        """Read a job: its payload, its state, its result, and what each earlier attempt found."""
        return {"job": _whole(session, job_id)}

    def renew(job_id: JobId) -> Document:
        """Renew your claim on a job now. It is renewed by itself while you are connected, so you rarely need this."""
        return {"claim": documents.claim(session.renew(job_id))}

    def progress(
        job_id: JobId,
        done: Annotated[float, Field(ge=0, description="how much is done")],
        total: Annotated[float | None, Field(ge=0, description="of how much")] = None,
        note: Annotated[str | None, Field(max_length=200, description="a few words for people")] = None,
        checkpoint: Annotated[Any, Field(description="what the next attempt should know if this one fails")] = None,
    ) -> Document:
        """Tell how far a job in hand is; people see it at once. With `checkpoint`, keep notes for the next attempt."""
        facts = {"done": done, "total": total, "note": note}
        session.progress(job_id, {name: value for name, value in facts.items() if value is not None})
        if checkpoint is not None:
            session.checkpoint(job_id, checkpoint)
        return {"job_id": job_id, "kept": checkpoint is not None}

    def finish(
        job_id: JobId, result: Annotated[Any, Field(description="anything JSON can hold, at most 256 KiB")] = None
    ) -> Document:
        """Report that a job in hand is done. Jobs that waited for it can be claimed now."""
        from rota.store.jobs.payload import encode as encoded

        session.settle(job_id, Done(encoded(result, "result")))
        return {"job_id": job_id, "status": "done"}

    def fail(
        job_id: JobId,
        error: Annotated[str, Field(min_length=1, description="what went wrong, for whoever tries next")],
        final: Annotated[bool, Field(description="trying again would not help: a person must look")] = False,
    ) -> Document:
        """Report that a job in hand failed. It is tried again while attempts are left, unless `final`."""
        session.settle(job_id, Failed(error, again=not final))
        return {"job": _whole(session, job_id)}

    def release(
        job_id: JobId, note: Annotated[str | None, Field(description="a word for the next holder")] = None
    ) -> Document:
        """Give a job in hand back unfinished; no attempt is spent."""
        session.settle(job_id, Released(note))
        return {"job": _whole(session, job_id)}

    def add(  # noqa: PLR0913 (each is a word that a model says or leaves out)
        title: Annotated[str, Field(min_length=1, max_length=1000, description="what is to be done, in a few words")],
        payload: Annotated[Any, Field(description="what whoever does it must know; anything JSON can hold")] = None,
        after: Annotated[list[int] | None, Field(description="wait until these jobs are done")] = None,
        parent: Annotated[int | None, Field(description="the job it is part of")] = None,
        queue: Annotated[str | None, Field(description="where it goes; without it, where you claim from")] = None,
        kind: Annotated[str, Field(description="the task that runs it, where programs do")] = "",
        priority: Annotated[int, Field(description="higher runs first")] = 0,
        key: Annotated[
            str | None, Field(description="at most one job per queue has this key: say it to add once")
        ] = None,
        unique: Annotated[
            Literal["waiting", "active"] | None,
            Field(description="with key: only while the job that has it is waiting, or also active; then add another"),
        ] = None,
        max_attempts: Annotated[int | None, Field(ge=1)] = None,
    ) -> Document:
        """Add a job. With `after` it waits for others. A key that is there already answers with the job that has it."""
        where = session.bound(queue) or DEFAULT
        options = {"key": key, "unique": unique, "max_attempts": max_attempts}
        new = NewJob(title, where, kind, payload, priority, after or (), parent).replace(**options)
        with session.store() as store:
            return {"job": documents.job(store.jobs.add(new))}

    def why(job_id: JobId) -> Document:
        """Say in one sentence why a job is not running, or who runs it."""
        with session.store() as store:
            session.refuse_elsewhere(store.jobs.get(job_id))
            return {"job_id": job_id, "why": store.jobs.why(job_id)}

    return [ready, claim, show, renew, progress, finish, fail, release, add, why]


def _whole(session: Session, job_id: int) -> Document:
    """Return the document of a job with its checkpoint and earlier runs."""
    with session.store() as store:
        job = session.refuse_elsewhere(store.jobs.get(job_id))
        runs = [documents.run(run) for run in store.claims.runs(job_id)]
    previous = [{name: run[name] for name in _RUN} for run in runs]
    return {**documents.job(job), "checkpoint": documents.json_text(job.checkpoint_json), "previous_runs": previous}


def _with_tool_errors(tool: Callable[..., Document]) -> Callable[..., Document]:
    """Wrap a tool so that errors of rota reach the model as they are worded."""

    @wraps(tool)
    def wrapped(*args: Any, **kwargs: Any) -> Document:
        try:
            answer: Document = json.loads(encode(tool(*args, **kwargs)))
            return answer
        except RotaError as problem:
            raise ToolError(str(problem)) from None

    return wrapped
