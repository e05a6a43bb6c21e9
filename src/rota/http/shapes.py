"""What goes over the wire: every request and every answer of the API. The OpenAPI document is made from these types.

Answers are written by `rota.wire`, so that they equal what the command line prints; a test holds both together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Id = Annotated[int, Meta(ge=0, le=999_999_999_999_999_999)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Whole = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Priority = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Seconds = Annotated[float, Meta(ge=0.000_001, le=3_153_600_000)]
Moment = Annotated[str, Meta(max_length=40, description="ISO 8601 in UTC")]
QueueName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]
Title = Annotated[str, Meta(min_length=1, max_length=1000)]
Word = Annotated[str, Meta(max_length=200)]
Key = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(max_length=16_384)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
Cursor = Annotated[str, Meta(max_length=100)]
WorkerId = Annotated[str, Meta(min_length=1, max_length=100)]
JobStatus = Literal["blocked", "scheduled", "ready", "active", "done", "failed", "cancelled"]
Scope = Literal["read", "enqueue", "work", "admin"]
Fence = Literal["tell", "end"]
# Something to see, in the words that every language's patterns know: what is white to one is not to another.
VISIBLE = r"[^\s\x1c-\x1f\x85\ufeff]"


class Request(Struct, forbid_unknown_fields=True):
    """What a caller sends."""


class Answer(Struct):
    """What a caller gets."""


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


class Outcome(Settle, kw_only=True):
    """What became of a claim on this job."""

    job_id: Id


class Checkpoint(Request):
    """What a handler wants its next attempt to know."""

    job_id: Id
    token: Id
    value: Any


class IdleWorker(Request):
    """A worker with room for so many more jobs, besides those it holds."""

    worker_id: WorkerId
    queue: QueueName
    room: Annotated[int, Meta(ge=0, le=1000)] = 1
    held: Annotated[int, Meta(ge=0, le=1000)] = 0


class RenewLease(Request):
    """An orchestrator lives, and has carried out the wishes up to this one."""

    answered_wish: Id = 0
    status: Literal["starting", "running", "stopping"] = "running"


class Exchange(Request):
    """What an orchestrator brings: `number` is its last exchange's; `holdings`, after a lost answer, are all it has."""

    number: Id
    outcomes: Annotated[list[Outcome], Meta(max_length=10_000)] = []
    idle: Annotated[list[IdleWorker], Meta(max_length=1000)] = []
    checkpoints: Annotated[list[Checkpoint], Meta(max_length=1000)] = []
    holdings: Annotated[list[Id], Meta(max_length=100_000)] | None = None
    served: Word = ""


class Certify(Request):
    """How a watched worker ended, and what it had reported that no exchange has carried."""

    worker_id: WorkerId
    slot: Word
    reason: Literal[
        "exited", "signaled", "startup_timeout", "heartbeat_timeout", "recovery_timeout", "invalid_frames", "deadline",
        "recycled", "setup_failed", "too_many_errors", "killed_by_operator", "lost",
    ]  # fmt: skip
    text: Text
    exit_code: Annotated[int, Meta(ge=0, le=255)] | None = None
    signal: Annotated[int, Meta(ge=1, le=128)] | None = None
    asked: bool = False
    cut: bool = False
    sent_by: Text | None = None
    usage: Text | None = None
    last_frame: Text | None = None
    stderr_tail: Text | None = None
    overdue: Annotated[tuple[Id, ...], Meta(max_length=1000)] = ()
    outcomes: Annotated[list[Outcome], Meta(max_length=10_000)] = []
    checkpoints: Annotated[list[Checkpoint], Meta(max_length=1000)] = []


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


class WorkerFilter(Details):
    """Which workers to list; `all` includes those that are gone."""

    all: bool = False


class Topics(Request):
    """Topic patterns, where `*` spans segments; none means all."""

    topics: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=50)] = []


class LogFilter(Topics):
    """Which facts of the log to list: the newest, or those after a cursor."""

    after: Annotated[str, Meta(max_length=100)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class EventFilter(Request):
    """Which events to list, oldest first: those after a cursor, or the last before one."""

    after: Cursor | None = None
    before: Cursor | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 500


class Link(Request):
    """The one-time code of a link."""

    code: Annotated[str, Meta(max_length=200)] = ""


class JobDetails(Answer):
    """What the store knows of a job beyond its document; claim and holder are those of its last claim."""

    blocked_on: Literal["dependency", "limit"] | None
    key: str | None
    limit_key: str | None
    timeout: float | None
    generation: int
    deaths: int
    lapses: int
    claimed_at: Moment | None
    token: int | None
    worker_id: str | None
    orchestrator: int | None
    lease: float | None
    lease_expires_at: Moment | None
    renewed_count: int
    checkpoint: Any
    source: str | None
    transcript_path: str | None
    stderr_path: str | None


class Job(Answer):
    """A job."""

    id: int
    title: str
    queue: str
    kind: str | None
    status: JobStatus
    priority: int
    payload: Any
    parent: int | None
    children: list[int]
    after: list[int]
    attempts: int
    max_attempts: int
    due_at: Moment | None
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    result: Any
    error: str | None
    worker_id: str | None
    run_id: str | None
    note: str | None
    details: JobDetails | UnsetType = UNSET


class Gone(Answer):
    """A job that came from a source and left no row when it was done."""

    id: int
    status: Literal["done"]


class Claim(Answer):
    """The exclusive right to run one attempt of one job."""

    id: int
    job_id: int
    worker_id: str
    run_id: str
    token: int
    claimed_at: Moment
    lease_expires_at: Moment | None
    renewed_count: int
    status: Literal["active"]


class TakenJob(Job, kw_only=True):
    """A job with the claim that was made on it."""

    claim: Claim


class Run(Answer):
    """What one claim did."""

    id: str
    job_id: int
    worker_id: str
    token: int
    attempt: int
    status: Literal["completed", "failed", "released", "expired"]
    verb: str
    reason: str | None
    error: str | None
    note: str | None
    claimed_at: Moment
    ended_at: Moment
    renewed_count: int
    transcript_path: str | None
    stderr_path: str | None


class WorkerDetails(Answer):
    """What the store knows of a worker beyond its document."""

    status: Literal["starting", "idle", "busy", "stopping", "stopped", "dead"]
    desired: str | None
    orchestrator: int | None
    queue: str | None
    concurrency: int


class Worker(Answer):
    """A worker."""

    id: str
    name: str
    hostname: str
    pid: int | None
    status: Literal["starting", "idle", "busy", "stopping", "stopped", "dead", "paused", "late"]
    registered_at: Moment
    last_heartbeat_at: Moment
    heartbeat_interval: float | None
    current_job: int | None
    slot: str | None
    version: str | None
    heartbeat_count: int
    success_count: int
    error_count: int
    last_error_at: Moment | None
    last_error_message: str | None
    metadata: dict[str, Any]
    details: WorkerDetails | UnsetType = UNSET


class Certificate(Answer):
    """How a worker died."""

    died_at: Moment
    reason: str
    text: str | None
    exit_code: int | None
    signal: int | None
    sent_by: str | None
    job_id: int | None


class Queue(Answer):
    """A queue with its limits and its counts by state."""

    name: str
    paused: bool
    paused_at: Moment | None
    paused_by: str | None
    pause_reason: str | None
    max_depth: int | None
    rate: str | None
    concurrency: int | None
    per_key: int | None
    breaker: int | None
    failures: int
    fence: Fence | None
    counts: dict[str, int]
    oldest_ready_at: Moment | None


class Slot(Answer):
    """A slot with the history of its restarts."""

    name: str
    queue: str | None
    crew: str
    host: str | None
    wanted: bool
    status: Literal["empty", "starting", "up", "backoff", "stopping", "failed"]
    health: str | None
    worker_id: str | None
    restarts: int
    lifetime_restarts: int
    starts_in: float | None
    failure_reason: str | None


class Orchestrator(Answer):
    """An orchestrator that is not gone."""

    id: int
    status: Literal["starting", "running", "stopping", "stopped"]
    crew: str
    hostname: str
    host_id: str
    pid: int
    version: str | None
    started_at: Moment
    last_reconcile_at: Moment | None


class Crew(Answer):
    """The orchestrator of this host, all slots, and the settings in force."""

    status: Literal["starting", "running", "stopping", "stopped"]
    pid: int | None
    host: str | None
    started_at: Moment | None
    last_reconcile_at: Moment | None
    pools: dict[str, int]
    slots: list[Slot]
    orchestrators: list[Orchestrator]
    settings: dict[str, Any]


class Reconciled(Answer):
    """What reconcile found and mended."""

    dead_workers_found: int
    expired_claims_released: int
    orphaned_jobs_recovered: int
    orphaned_claims_released: int
    stale_states_fixed: int


class Token(Answer):
    """An access token, without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created_by: str
    created_at: Moment
    last_used_at: Moment | None
    revoked_at: Moment | None


class MadeToken(Token):
    """An access token with its secret, which is told this once."""

    secret: str


class Info(Answer):
    """What runs here."""

    version: str
    worker_enabled: bool
    orchestrators: list[Orchestrator]
    slots: list[Slot]


class Lease(Answer):
    """Until when an orchestrator's lease lasts, and the number of the last wish."""

    lease_expires_at: Moment
    wish: int


class Handout(Answer):
    """A claim as its worker gets it, with what the handler needs."""

    job_id: int
    token: int
    worker_id: str
    queue: str
    kind: str | None
    title: str
    payload: Any
    priority: int
    attempt: int
    max_attempts: int
    timeout: float | None
    checkpoint: Any
    fenced: bool
    previous_runs: list[Run]


class Exchanged(Answer):
    """The claims made, the tokens whose outcome was refused, and the number of this exchange."""

    claims: list[Handout]
    refused: list[int]
    number: int


class Certified(Answer):
    """After how many seconds the slot starts again, or null and why it does not."""

    starts_in: float | None
    reason: str | None


class Source(Answer):
    """A source with its progress; `filler` is the internal job that looks for work."""

    name: str
    queue: str
    task: str
    every: float
    low: int
    batch: int
    repeats: int | None
    counts: dict[str, int]
    added_count: int
    success_count: int
    error_count: int
    last_success_at: Moment | None
    last_success_worker: str | None
    last_error_at: Moment | None
    last_error_message: str | None
    last_error_worker: str | None
    repeated_count: int
    last_repeated_key: str | None
    filler: int
    filler_status: JobStatus | None
    fill_count: int
    last_fill_at: Moment | None
    last_fill_error: str | None
    next_fill_at: Moment | None


class Forgotten(Answer):
    """A source that is gone; how many of its jobs waited and are gone too."""

    name: str
    jobs: int


class Ids(Answer):
    """The ids of jobs, in the order in which they were sent."""

    ids: list[int]


class Why(Answer):
    """Why a job is not running."""

    id: int
    why: str


class WhySlot(Answer):
    """Why a slot is as it is."""

    id: str
    why: str


class Advice(Answer):
    """What a worker should do."""

    id: str
    advice: Literal["continue", "stop", "pause"]


class Left(Answer):
    """A worker left; how many jobs went back."""

    id: str
    released: int


class Paused(Answer):
    """What was paused; `*` is everything."""

    paused: list[str]


class Resumed(Answer):
    """What was resumed; `*` is everything."""

    resumed: list[str]


class Scaled(Answer):
    """How many workers a queue should have."""

    queue: str
    count: int
    crew: str


class Draining(Answer):
    """The orchestrators that were asked, by process."""

    draining: list[int]


class Code(Answer):
    """A one-time code, and the link that it makes."""

    code: str
    link: str
    expires_in: int


class Clock(Answer):
    """The store's time, by which leases lapse, and the time of day, by which jobs fall due."""

    now: Moment
    wall: Moment


class Event(Answer):
    """What one transaction changed. `cursor` is opaque: hand it back to read on from here."""

    cursor: str
    at: Moment
    actor: str
    facts: list[list[Any]]


class Kept(Answer):
    """What was told of the claim on a job is kept."""

    id: int


class Alive(Answer):
    """The process answers; for `readyz` the store does too."""

    status: Literal["ok"]


class Fact(Answer):
    """A fact of the log; the field that names its noun says what changed."""

    id: str
    topic: str
    type: Literal["job_update", "queue_update", "worker_update", "source_update", "health_update"]
    timestamp: int
    at: Moment
    actor: str
    job: dict[str, Any] | UnsetType = UNSET
    queue: dict[str, Any] | UnsetType = UNSET
    worker: dict[str, Any] | UnsetType = UNSET
    source: dict[str, Any] | UnsetType = UNSET
    health: dict[str, Any] | UnsetType = UNSET


class Problem(Answer):
    """What went wrong (RFC 9457); `code` is the exit code that the command line would have."""

    type: str
    title: str
    status: int
    detail: str
    code: int
