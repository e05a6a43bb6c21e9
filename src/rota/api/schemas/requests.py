"""The types of request bodies and queries, and of the bounded numbers and texts in them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Id = Annotated[int, Meta(ge=0, le=999_999_999_999_999_999)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
NonNegative = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Priority = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Seconds = Annotated[float, Meta(ge=0.000_001, le=3_153_600_000)]
Timestamp = Annotated[str, Meta(max_length=40, description="ISO 8601 in UTC")]
QueueName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]
Title = Annotated[str, Meta(min_length=1, max_length=1000)]
ShortText = Annotated[str, Meta(max_length=200)]
Key = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(max_length=16_384)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
Cursor = Annotated[str, Meta(max_length=2000)]
Trace = Annotated[
    str, Meta(pattern="^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$", description="W3C traceparent")
]
WorkerId = Annotated[str, Meta(min_length=1, max_length=100)]
JobStatus = Literal["blocked", "scheduled", "ready", "active", "done", "failed", "cancelled"]
Scope = Literal["read", "enqueue", "work", "admin"]
Fence = Literal["tell", "end"]
Until = Literal["done", "final"]
Unique = Literal["waiting", "active"]
Missed = Literal["skip", "once", "all"]
# At least one visible character. Spelled out, because languages disagree on what \s matches.
VISIBLE = r"[^\s\x1c-\x1f\x85\ufeff]"


class Request(Struct, forbid_unknown_fields=True):
    """A request body or query. Unknown fields are refused."""


class NewJob(Request):
    """A job to be added. If its key exists already, the answer is the job that has it."""

    title: Title
    queue: QueueName = "default"
    kind: ShortText = ""
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
    follows: Annotated[list[NonNegative], Meta(max_length=10_000, description="places in the same call, from 0")] = []
    until: Until = "done"
    debounce: Seconds | None = None
    at_most: Seconds | None = None
    unique: Annotated[Unique | None, Meta(description="in which states a job of its key stands for a new one")] = None


class Details(Request):
    """`details` adds the fields that the document of a record leaves out."""

    details: bool = False


class NewJobs(Request):
    """Jobs to be added in one transaction, all or none."""

    jobs: Annotated[list[NewJob], Meta(min_length=1, max_length=10_000)]


class Empty(Request):
    """No parameters: `{}`."""


class Done(Request):
    """Settle a job as done by hand, without its claim's token."""

    result: Any = None
    force: bool = False


class Fail(Request):
    """Settle a job as failed by hand, without its claim's token."""

    error: Annotated[str, Meta(min_length=1, max_length=16_384, pattern=VISIBLE)]
    final: bool = False
    force: bool = False


class Snooze(Request):
    """Postpone a claimed job by hand, without its claim's token."""

    delay: Seconds
    note: Text | None = None


class On(Request):
    """The job that another waits for."""

    on: Id


class Take(Request):
    """Claim the best ready job for a worker, or by hand for a person. Waits up to `wait` seconds for one."""

    worker_id: WorkerId | None = None
    person: ShortText | None = None
    queue: QueueName | None = None
    lease: Seconds | None = None
    wait: Annotated[float, Meta(ge=0, le=30)] = 0


class ClaimJob(Request):
    """Claim this job for a worker, or by hand for a person such as `ada@laptop`."""

    worker_id: WorkerId | None = None
    person: ShortText | None = None
    lease: Seconds | None = None


class Renew(Request):
    """Extend the lease, never shortening it."""

    token: Id
    lease: Seconds | None = None


class Keep(Request):
    """A checkpoint for the next attempt."""

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
    """Give a job back unfinished, with a note for the next holder."""

    token: Id
    note: Text | None = None


class Settle(Request):
    """The outcome of a claim. `result` goes with done; `error` and `final` with failed; `delay` with snoozed."""

    token: Id
    outcome: Literal["done", "failed", "snoozed", "released"]
    result: Any = None
    error: Text | None = None
    final: bool = False
    delay: Seconds | None = None
    note: Text | None = None


class LastSeen(Request):
    """How many seconds ago a worker last sent a frame."""

    worker_id: WorkerId
    ago: Annotated[float, Meta(ge=0, le=3_153_600_000)]


class RenewLease(Request):
    """Renew the lease of an orchestrator, which has carried out the directives up to `acknowledged_directive`."""

    acknowledged_directive: Id = 0
    status: Literal["starting", "running", "stopping"] = "running"
    heard: Annotated[list[LastSeen], Meta(max_length=10_000)] = []


class NewWorker(Request):
    """Register a worker that will send a heartbeat every `every` seconds. Where it runs is for display only."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=VISIBLE)]
    every: Annotated[float, Meta(ge=0.1, le=3_153_600_000)] | None = None
    queue: QueueName | None = None
    hostname: Annotated[str, Meta(min_length=1, max_length=253)] | None = None
    pid: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] | None = None


class Progress(Request):
    """Progress of the current job."""

    done: float
    total: float | None = None
    note: ShortText | None = None


class Heartbeat(Request):
    """A heartbeat, with metrics of the worker."""

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
    crew: ShortText = "main"
    host: ShortText | None = None


class Reconcile(Request):
    """Repair the state of the store, or with `plan` only report what would change."""

    plan: bool = False


class Prune(Request):
    """Delete what ended more than `older` seconds ago, and per queue all but the newest `keep` final jobs.

    With `plan` only count what would be deleted.
    """

    older: Annotated[float, Meta(ge=0, le=3_153_600_000)] | None = None
    keep: NonNegative | None = None
    plan: bool = False


class Drain(Request):
    """Let a crew finish what it holds, and end: on this host, or on the one named."""

    crew: ShortText = "main"
    host: ShortText | None = None


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

    One request looks at a bounded number of events: follow the link to continue.
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


class DeathFilter(Request):
    """Which deaths to list: the newest, of one slot or worker or of any."""

    slot: ShortText | None = None
    worker: ShortText | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


class OutputFilter(Request):
    """Which part of a run's output: at most `limit` bytes from `offset`, or the end of it.

    `run` selects another run than the newest. `wait`: how many seconds to wait for more while the run is live.
    """

    run: ShortText | None = None
    stream: Literal["transcript", "stderr"] = "transcript"
    offset: Annotated[int, Meta(ge=0, le=1 << 50)] | None = None
    limit: Annotated[int, Meta(ge=1, le=262_144)] = 65_536
    wait: Annotated[int, Meta(ge=0, le=25)] = 0
