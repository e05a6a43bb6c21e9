"""What goes over the wire between an orchestrator elsewhere, or its orphans, and the store."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from rota.api.schemas import nouns
from rota.api.schemas.derive import (
    AssignmentDocument,
    DeathTold,
    HomeTold,
    IdleWorker,
    Pid,
    Policy,
    ProcessTold,
    Reason,
    ScheduleTold,
    SlotName,
    SlotTold,
)
from rota.api.schemas.fields import Id, QueueName, Seconds, Text, Word, WorkerId
from rota.api.schemas.nouns import Answer
from rota.api.schemas.requests import Request
from rota.core.claim import Done, Failed, Released, Returned, Snoozed
from rota.core.errors import BadInput
from rota.core.jsontext import Raw as Json
from rota.core.times import SECOND
from rota.store.claims.exchange import Report
from rota.store.jobs.payload import encode as encode_payload

LARGEST_FACT = 4096


class SlotWithDetails(nouns.Slot):
    """A slot with the history of its restarts, and where asked for all that the store knows of it."""

    details: SlotTold | UnsetType = UNSET


class Outcome(Request):
    """What became of a claim on this job; `returned`: it was never started."""

    job_id: Id
    token: Id
    outcome: Literal["done", "failed", "snoozed", "released", "returned"]
    result: Raw = msgspec.field(default_factory=Raw)
    error: Text | None = None
    final: bool = False
    reason: Word | None = None
    delay: Seconds | None = None
    note: Text | None = None


class Checkpoint(Request):
    """What a handler wants its next attempt to know."""

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
    served: Word = ""


class Exchanged(Answer):
    """The claims made, the tokens whose outcome was refused, and the number of this exchange.

    `rate_free_in`: after how many seconds a rate allows the next claim, where one left a worker without.
    """

    claims: list[AssignmentDocument]
    refused: list[int]
    number: int
    rate_free_in: float | None = None


class Certify(Reported, kw_only=True):
    """How a watched worker ended, what it had reported that no exchange has carried, and when its slot starts again."""

    death: DeathTold
    policy: Policy | None = None


class Join(Request):
    """An orchestrator begins."""

    crew: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]
    home: HomeTold


class Joined(Answer):
    """Its number."""

    id: int


class Standing(Answer):
    """The running number of its last exchange, and the workers that those before it left behind."""

    number: int
    before: list[ProcessTold]


class TakeOver(Request):
    """Which of the workers that were left behind live."""

    living: Annotated[list[WorkerId], Meta(max_length=10_000)] = []


class Pools(Request):
    """How many slots of each queue it wants; without them, those it has."""

    pools: Annotated[dict[QueueName, Annotated[int, Meta(ge=0, le=1000)]], Meta(max_length=1000)] | None = None


class IdsWanted(Request):
    """So many ids for workers that will be started."""

    count: Annotated[int, Meta(ge=1, le=1000)]


class WorkerIds(Answer):
    """Ids that nobody else gets."""

    worker_ids: list[str]


class Hire(Request):
    """A worker's process was started in a slot, under an id that was asked for."""

    worker_id: Annotated[str, Meta(pattern="^worker-[a-z0-9]{8}$")]
    slot: SlotName
    queue: QueueName
    pid: Pid
    pid_start: Annotated[int, Meta(ge=0, le=1 << 62)] | None = None


class Up(Request):
    """A worker is ready for its first job, has so many in hand at a time, and knows these kinds, or `every` one."""

    worker_id: WorkerId
    slot: SlotName
    concurrency: Annotated[int, Meta(ge=1, le=1000)] = 1
    kinds: Annotated[list[Word], Meta(max_length=10_000)] = []
    every: bool = False


class Said(Request):
    """What a worker says of itself."""

    worker_id: WorkerId
    metadata: dict[str, Any] | None = None


class Felt(Request):
    """How the worker in a slot is."""

    slot: SlotName
    health: Word | None = None


class Noted(Request):
    """Something for the event log, of a worker or a slot."""

    noun: Literal["worker", "slot"]
    verb: Literal["leak", "snapshot"]
    which: Word
    details: dict[str, Any] = {}


class Show(Request):
    """What readers of the store should see of its workers."""

    up: Annotated[list[Up], Meta(max_length=1000)] = []
    said: Annotated[list[Said], Meta(max_length=1000)] = []
    felt: Annotated[list[Felt], Meta(max_length=1000)] = []
    noted: Annotated[list[Noted], Meta(max_length=2000)] = []


class Look(Request):
    """The last wish that it knows; whether to make the store true, and to tell of processes on its host."""

    known_directive: Annotated[int, Meta(ge=-1, le=999_999_999_999_999_999)] = -1
    reconciles: bool = False
    polls: bool = False


class Bury(Request):
    """A worker that nobody watched is gone; without a reason, its time to finish is over."""

    worker_id: WorkerId
    reason: Reason | None = None
    text: Text = ""


class DeclaredSchedules(Request):
    """The schedules of its workers' application."""

    schedules: Annotated[list[ScheduleTold], Meta(max_length=1000)]


class Tokens(Request):
    """Claims."""

    tokens: Annotated[list[Id], Meta(max_length=10_000)]


class ClaimEnd(Answer):
    """How a claim ended: the move, and the error if there was one."""

    token: int
    verb: str
    error: str | None


class OrphanBegins(Reported):
    """A worker whose orchestrator is gone, with what it reported and the tokens in its hand."""

    in_hand: Annotated[list[Id], Meta(max_length=1000)] = []


class OrphanClaim(Request):
    """A claim in its hand."""

    job_id: Id
    token: Id


class OrphanRenews(Request):
    """The claims in its hand, each of which lasts a little longer."""

    claims: Annotated[list[OrphanClaim], Meta(max_length=1000)] = []


class OrphanEnds(Reported, kw_only=True):
    """How it ended."""

    death: DeathTold


class Held(Answer):
    """The tokens that still hold."""

    held: list[int]


def settled_of(told: Outcome) -> tuple[int, int, Any]:
    """An outcome as the store takes it; one that says too little is a failure that says so."""
    return told.job_id, told.token, _outcome(told)


def report_of(told: Reported) -> Report:
    """What workers reported, as the store takes it."""
    kept = [(json_of(each.value, "checkpoint") or "null", each.job_id, each.token) for each in told.checkpoints]
    return Report([settled_of(each) for each in told.outcomes], checkpoints=kept)


def _outcome(told: Outcome) -> Any:
    match told.outcome:
        case "done":
            try:
                return Done(json_of(told.result, "result"))
            except BadInput as problem:  # what else is in the exchange must not wait for it
                return Failed(str(problem), again=False)
        case "failed":
            error = told.error or "failed, and did not say why"
            return Failed(error, not told.final, told.reason, round((told.delay or 0) * SECOND))
        case "snoozed":
            return Snoozed(max(1, round((told.delay or 0) * SECOND)), told.note)
        case "released":
            return Released(told.note, told.reason)
        case "returned":
            return Returned()


def json_of(value: Raw, what: str) -> str | None:
    """JSON as it stands, once it was checked; None where nothing was said."""
    text = bytes(value).decode()
    return encode_payload(Json(text), what) if text else None
