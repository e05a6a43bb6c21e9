"""Requests and responses of orchestrators that reach only the API, and of their orphans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from rota.api.schemas import nouns, requests
from rota.api.schemas.derive import Answer, derived
from rota.api.schemas.requests import Id, QueueName, Request, ShortText, Text, WorkerId
from rota.core import death
from rota.core.frames import outcomes
from rota.core.frames.assignment import Assignment
from rota.core.jsontext import Raw as Json
from rota.core.schedule import NewSchedule
from rota.core.slot import RestartPolicy
from rota.store.claims.exchange import Idle, Report
from rota.store.jobs.payload import encode as encode_payload
from rota.store.workers.crews import Home, PollResult, Process
from rota.store.workers.death import Death
from rota.store.workers.slots import Slot

LARGEST_FACT = 4096
Microseconds = Annotated[int, Meta(ge=0, le=outcomes.LONGEST_SNOOZE, description="in microseconds")]
Pid = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
SlotName = Annotated[str, Meta(min_length=1, max_length=100)]
if TYPE_CHECKING:
    Reason = str
    IdleWorker = Any
    HomeSchema = Any
    DeathSchema = Any
    Policy = Any
    HandoutSchema = Any
    ProcessSchema = Any
    SlotSchema = Any
    PollResultSchema = Any
    ScheduleSchema = Any
else:
    Reason = Literal[death.REASONS]
    IdleWorker = derived(
        Idle,
        Request,
        worker_id=WorkerId,
        queue=QueueName,
        room=Annotated[int, Meta(ge=0, le=1000)],
        held=Annotated[int, Meta(ge=0, le=1000)],
    )
    HomeSchema = derived(
        Home, Request, host=Annotated[str, Meta(min_length=1, max_length=200)],
        hostname=Annotated[str, Meta(min_length=1, max_length=253)], pid=Pid,
    )  # fmt: skip
    DeathSchema = derived(
        Death,
        Request,
        worker_id=WorkerId,
        slot=SlotName,
        reason=Reason,
        exit_code=Annotated[int, Meta(ge=0, le=255)],
        signal=Annotated[int, Meta(ge=1, le=128)],
        overdue=Id,
    )
    Policy = derived(RestartPolicy, Request)
    HandoutSchema, ProcessSchema, SlotSchema = (
        derived(Assignment, Answer),
        derived(Process, Answer),
        derived(Slot, Answer),
    )
    PollResultSchema = derived(PollResult, Answer)
    ScheduleSchema = derived(
        NewSchedule,
        Request,
        name=QueueName,
        cron=Annotated[str, Meta(min_length=1, max_length=200)],
        timezone=ShortText,
        missed=requests.Missed,
        queue=QueueName,
        kind=ShortText,
        priority=requests.Priority,
        max_attempts=requests.Count,
        timeout=requests.Seconds,
    )


class SlotWithDetails(nouns.Slot):
    """A slot with the history of its restarts, and on request all fields of its record."""

    details: SlotSchema | UnsetType = UNSET


class Outcome(Request):
    """The outcome of a claim, as on the pipe of a worker. `returned`: never started. `put_off`: spends no attempt."""

    job_id: Id
    token: Id
    outcome: Literal["done", "failed", "snoozed", "released", "returned"]
    result: Annotated[str, Meta(description="JSON as text")] | None = None
    error: Text | None = None
    again: bool = True
    reason: Text | None = None
    delay: Microseconds | None = None
    note: Text | None = None
    put_off: Microseconds = 0


class Checkpoint(Request):
    """The checkpoint of a job for its next attempt."""

    job_id: Id
    token: Id
    value: Raw


class Reported(Request):
    """What workers reported."""

    outcomes: Annotated[list[Outcome], Meta(max_length=10_000)] = []
    checkpoints: Annotated[list[Checkpoint], Meta(max_length=10_000)] = []


class Exchange(Reported):
    """What an orchestrator brings: `number` is its last exchange's; `holdings`, after a lost answer, are all it has."""

    number: Id = 0
    idle: Annotated[list[IdleWorker], Meta(max_length=1000)] = []
    holdings: Annotated[list[Id], Meta(max_length=100_000)] | None = None
    served: ShortText = ""


class Exchanged(Answer):
    """The claims made, the tokens whose outcome was refused, and the number of this exchange.

    `rate_free_in`: after how many seconds a rate allows the next claim, where one left a worker without.
    """

    claims: list[HandoutSchema]
    refused: list[int]
    number: int
    rate_free_in: float | None = None


class Certify(Reported, kw_only=True):
    """How a supervised worker ended, with unsent reports and the restart policy of its slot."""

    death: DeathSchema
    policy: Policy | None = None


class Join(Request):
    """An orchestrator begins."""

    crew: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]
    home: HomeSchema


class Joined(Answer):
    """Its number."""

    id: int


class Standing(Answer):
    """The running number of its last exchange, and the workers that those before it left behind."""

    number: int
    before: list[ProcessSchema]


class TakeOver(Request):
    """Which of the workers that were left behind live."""

    living: Annotated[list[WorkerId], Meta(max_length=10_000)] = []


class Pools(Request):
    """How many slots of each queue it wants; without them, those it has."""

    pools: Annotated[dict[QueueName, Annotated[int, Meta(ge=0, le=1000)]], Meta(max_length=1000)] | None = None


class IdsWanted(Request):
    """How many ids to reserve for workers that will be started."""

    count: Annotated[int, Meta(ge=1, le=1000)]


class WorkerIds(Answer):
    """Reserved ids of workers."""

    worker_ids: list[str]


class RegisterWorker(Request):
    """Register a worker whose process was started in a slot, under a reserved id."""

    worker_id: Annotated[str, Meta(pattern="^worker-[a-z0-9]{8}$")]
    slot: SlotName
    queue: QueueName
    pid: Pid
    pid_start: Annotated[int, Meta(ge=0, le=1 << 62)] | None = None


class WorkerReady(Request):
    """A worker is ready: it runs up to `concurrency` jobs at a time, of these kinds or of `every` one."""

    worker_id: WorkerId
    slot: SlotName
    concurrency: Annotated[int, Meta(ge=1, le=1000)] = 1
    kinds: Annotated[list[ShortText], Meta(max_length=10_000)] = []
    every: bool = False


class WorkerMetadata(Request):
    """The metadata that a worker reported."""

    worker_id: WorkerId
    metadata: dict[str, Any] | None = None


class SlotHealth(Request):
    """The health of the worker in a slot."""

    slot: SlotName
    health: ShortText | None = None


class WorkerEvent(Request):
    """An event of a worker or a slot for the log."""

    noun: Literal["worker", "slot"]
    verb: Literal["leak", "snapshot"]
    which: ShortText
    details: dict[str, Any] = {}


class Show(Request):
    """The state of workers that readers of the store should see."""

    up: Annotated[list[WorkerReady], Meta(max_length=1000)] = []
    said: Annotated[list[WorkerMetadata], Meta(max_length=1000)] = []
    felt: Annotated[list[SlotHealth], Meta(max_length=1000)] = []
    noted: Annotated[list[WorkerEvent], Meta(max_length=2000)] = []


class Poll(Request):
    """The last directive that the orchestrator knows; whether to reconcile, and to return processes on its host."""

    known_directive: Annotated[int, Meta(ge=-1, le=999_999_999_999_999_999)] = -1
    reconciles: bool = False
    polls: bool = False


class MarkDead(Request):
    """Mark an unsupervised worker as dead. Without a reason, its time to finish is over."""

    worker_id: WorkerId
    reason: Reason | None = None
    text: Text = ""


class DeclaredSchedules(Request):
    """The schedules of its workers' application."""

    schedules: Annotated[list[ScheduleSchema], Meta(max_length=1000)]


class Tokens(Request):
    """Claims."""

    tokens: Annotated[list[Id], Meta(max_length=10_000)]


class ClaimEnd(Answer):
    """How a claim ended: the move, and the error if there was one."""

    token: int
    verb: str
    error: str | None


class OrphanBegins(Reported):
    """A worker whose orchestrator is gone, with what it reported and the tokens of its running jobs."""

    in_hand: Annotated[list[Id], Meta(max_length=1000)] = []


class OrphanClaim(Request):
    """The claim of a running job."""

    job_id: Id
    token: Id


class OrphanRenews(Request):
    """The claims of running jobs, whose leases are to be renewed."""

    claims: Annotated[list[OrphanClaim], Meta(max_length=1000)] = []


class OrphanEnds(Reported, kw_only=True):
    """How an orphan ended, with what it reported."""

    death: DeathSchema


class Held(Answer):
    """The tokens of claims that are still valid."""

    held: list[int]


def settled_of(outcome: Outcome) -> tuple[int, int, Any]:
    """Convert an outcome for the store. One that makes no sense becomes a failure, and the others are settled."""
    return outcome.job_id, outcome.token, outcomes.decode_reported(msgspec.structs.asdict(outcome))


def report_of(reported: Reported) -> Report:
    """Convert reports of workers for the store."""
    kept = [(json_of(each.value, "checkpoint") or "null", each.job_id, each.token) for each in reported.checkpoints]
    return Report([settled_of(each) for each in reported.outcomes], checkpoints=kept)


def json_of(value: Raw, what: str) -> str | None:
    """Return checked JSON text; None if the field was left out."""
    text = bytes(value).decode()
    return encode_payload(Json(text), what) if text else None
