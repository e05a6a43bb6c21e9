"""What callers of the API send: a type for every body and every query."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from rota.api.schemas.fields import (
    VISIBLE,
    Count,
    Cursor,
    Fence,
    Id,
    JobStatus,
    Key,
    Path,
    Priority,
    QueueName,
    Scope,
    Seconds,
    Text,
    Title,
    Trace,
    Unique,
    Until,
    Whole,
    Word,
    WorkerId,
)


class Request(Struct, forbid_unknown_fields=True):
    """What a caller sends."""


class NewJob(Request):
    """A job to be added. A key met again answers with the job that has it."""

    title: Title
    queue: QueueName = "default"
    kind: Word = ""
    payload: Any = None
    priority: Priority = 0
    after: Annotated[list[Id], Meta(max_length=1000)] = []
    parent: Id | None = None
    at: Annotated[str, Meta(max_length=40, description="ISO 8601, or +30m from now")] | None = None
    key: Key | None = None
    limit_key: Key | None = None
    max_attempts: Count | None = None
    timeout: Seconds | None = None
    trace: Trace | None = None
    follows: Annotated[list[Whole], Meta(max_length=10_000, description="places in the same call, from 0")] = []
    until: Until = "done"
    debounce: Seconds | None = None
    at_most: Seconds | None = None
    unique: Annotated[Unique | None, Meta(description="in which states a job of its key stands for a new one")] = None


class Details(Request):
    """`details` adds what a record of the store says beyond its document."""

    details: bool = False


class NewJobs(Request):
    """Jobs to be added in one transaction, all or none."""

    jobs: Annotated[list[NewJob], Meta(min_length=1, max_length=10_000)]


class Empty(Request):
    """Nothing further to say: `{}`."""


class Done(Request):
    """A person says that a job is done, without its claim's token."""

    result: Any = None
    force: bool = False


class Fail(Request):
    """A person says that a job failed, without its claim's token."""

    error: Annotated[str, Meta(min_length=1, max_length=16_384, pattern=VISIBLE)]
    final: bool = False
    force: bool = False


class Snooze(Request):
    """A person puts off a job that is held, without its claim's token."""

    delay: Seconds
    note: Text | None = None


class On(Request):
    """The job that another waits for."""

    on: Id


class Take(Request):
    """Take the best ready job; wait so many seconds for one. Without a worker, for a person by hand."""

    worker_id: WorkerId | None = None
    person: Word | None = None
    queue: QueueName | None = None
    lease: Seconds | None = None
    wait: Annotated[float, Meta(ge=0, le=30)] = 0


class ClaimJob(Request):
    """Take this job; without a worker, for a person such as `ada@laptop` by hand."""

    worker_id: WorkerId | None = None
    person: Word | None = None
    lease: Seconds | None = None


class Renew(Request):
    """Extend the lease, never shortening it."""

    token: Id
    lease: Seconds | None = None


class Keep(Request):
    """What the next attempt should know."""

    token: Id
    value: Any


class Capture(Request):
    """The files on the worker's host that the code behind a claim writes."""

    token: Id
    transcript_path: Path | None = None
    stderr_path: Path | None = None


class ClaimToken(Request):
    """The claim's token."""

    token: Id


class Release(Request):
    """Give a job back unfinished, with a word for the next holder."""

    token: Id
    note: Text | None = None


class Settle(Request):
    """What became of a claim. `result` goes with done; `error` and `final` with failed; `delay` with snoozed."""

    token: Id
    outcome: Literal["done", "failed", "snoozed", "released"]
    result: Any = None
    error: Text | None = None
    final: bool = False
    delay: Seconds | None = None
    note: Text | None = None


class Heard(Request):
    """So many seconds ago a worker last spoke."""

    worker_id: WorkerId
    ago: Annotated[float, Meta(ge=0, le=3_153_600_000)]


class RenewLease(Request):
    """An orchestrator lives, and has carried out the wishes up to this one."""

    acknowledged_directive: Id = 0
    status: Literal["starting", "running", "stopping"] = "running"
    heard: Annotated[list[Heard], Meta(max_length=10_000)] = []


class NewWorker(Request):
    """A worker's life begins; it promises to beat `every` so many seconds. Where it runs is told to people only."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=VISIBLE)]
    every: Annotated[float, Meta(ge=0.1, le=3_153_600_000)] | None = None
    queue: QueueName | None = None
    hostname: Annotated[str, Meta(min_length=1, max_length=253)] | None = None
    pid: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] | None = None


class Progress(Request):
    """How far the job in hand is."""

    done: float
    total: float | None = None
    note: Word | None = None


class Beat(Request):
    """A sign of life, with what the worker says of itself."""

    busy: Id | None = None
    cpu: Annotated[float, Meta(ge=0)] | None = None
    memory: Annotated[float, Meta(ge=0)] | None = None
    completed: Id | None = None
    progress: Progress | None = None
    recovering: Annotated[float, Meta(ge=0)] | None = None


class Reset(Request):
    """Clear a slot's restarts, or remove it with its history."""

    forget: bool = False


class Limits(Request):
    """Limits to set; `null` removes one, what is left out stays."""

    max_depth: Count | UnsetType | None = UNSET
    rate: Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,8}/[smhd]$", description="such as 10/m")] | UnsetType | None = (
        UNSET
    )
    concurrency: Count | UnsetType | None = UNSET
    per_key: Count | UnsetType | None = UNSET
    breaker: Count | UnsetType | None = UNSET
    fence: Fence | UnsetType | None = UNSET


class Pause(Request):
    """Pause one queue, or all."""

    queue: QueueName | None = None
    reason: Text | None = None


class PauseSchedule(Request):
    """Pause a schedule."""

    reason: Text | None = None


class Resume(Request):
    """Resume one queue, or all."""

    queue: QueueName | None = None


class Scale(Request):
    """How many workers of the queue a crew should have: on this host, or on the one named."""

    count: Annotated[int, Meta(ge=0, le=1000)]
    crew: Word = "main"
    host: Word | None = None


class Reconcile(Request):
    """Make the store true, or with `plan` only say what that would change."""

    plan: bool = False


class Prune(Request):
    """Forget what ended more than `older` seconds ago, and per queue all but the newest `keep` final jobs.

    With `plan` only count what would be forgotten.
    """

    older: Annotated[float, Meta(ge=0, le=3_153_600_000)] | None = None
    keep: Whole | None = None
    plan: bool = False


class Drain(Request):
    """Let a crew finish what it holds, and end: on this host, or on the one named."""

    crew: Word = "main"
    host: Word | None = None


class NewToken(Request):
    """An access token to be made."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=4)]


class JobFilter(Details):
    """Which jobs to list, newest first; `before` pages on; `internal` includes those that fill queues from sources.

    `search` looks for a text in titles, kinds and keys, among a bounded number of jobs: follow the link to search on.
    """

    search: Annotated[str, Meta(max_length=200)] | None = None
    status: JobStatus | None = None
    queue: QueueName | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    before: Id | None = None
    internal: bool = False


class ReadyFilter(Details):
    """Which ready jobs to list, best first."""

    queue: QueueName | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 10


class TrackingFilter(Request):
    """How many of the tracked workers to list, of the living and of the dead, the latest first."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class WorkerFilter(Details):
    """Which workers to list; `all` includes those that are gone."""

    all: bool = False


class Topics(Request):
    """Topic patterns, where `*` spans segments; none means all."""

    topics: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=50)] = []


class LogFilter(Topics):
    """Which facts of the log to list: the newest, those after a cursor, or the last before one.

    One request looks at a bounded number of events: follow the link to look on.
    """

    after: Cursor | None = None
    before: Cursor | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class EventFilter(Request):
    """Which events to list, oldest first: those after a cursor, or the last before one."""

    after: Cursor | None = None
    before: Cursor | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 500


class Link(Request):
    """The one-time code of a link."""

    code: Annotated[str, Meta(max_length=200)] = ""
