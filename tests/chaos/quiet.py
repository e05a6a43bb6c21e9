"""The snapshot of a quiet storm, written by hand: two workers, four jobs, one kill. Every invariant holds on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.claim import Run
from rota.core.event import Event, JobMoved, SlotChanged, WorkerChanged
from rota.core.job import Job
from rota.core.record import Record
from rota.core.slot import History, RestartPolicy
from rota.core.worker import Worker
from rota.lab.chaos.crew_processes import Remains, Vitals
from rota.lab.chaos.ledger_reader import Ledger
from rota.lab.chaos.plan import FLAKY, POISON, WORK, Fault, Offer, Options, Plan, PlannedJob
from rota.lab.chaos.snapshot import Sample, Snapshot, Watch
from rota.store.workers.registration import Certificate
from rota.store.workers.slots import Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.event import Fact

    Log = Sequence[tuple[int, Sequence[Fact]]]  # events: a moment in milliseconds, and the facts

A, B = "worker-aaaaaaaa", "worker-bbbbbbbb"
MS = 1000
ONE, TWO, THREE, FOUR = 11, 12, 13, 14

# Job 11 runs once; 12 is cut short by the kill of A and runs again in B; 13 fails once; 14 waits for 11.
LINES: list[dict[str, Any]] = [
    {"what": "up", "worker": A, "slot": "worker:storm:0", "pid": 100, "at": 1},
    {"what": "up", "worker": B, "slot": "worker:storm:1", "pid": 101, "at": 2},
    {"what": "offered", "numbers": [0, 1, 2, 3], "at": 3},
    {"what": "accepted", "numbers": [0, 1, 2, 3], "jobs": [ONE, TWO, THREE, FOUR], "at": 4},
    {"what": "start", "worker": A, "pid": 100, "job": ONE, "token": 1, "at": 10},
    {"what": "end", "worker": A, "pid": 100, "job": ONE, "token": 1, "outcome": "done", "at": 11},
    {"what": "start", "worker": A, "pid": 100, "job": TWO, "token": 2, "at": 20},
    {"what": "fault", "kind": "kill busy", "workers": [A], "store_at": 1019 * MS, "at": 20},
    {"what": "gone", "worker": A, "pid": 100, "at": 22},
    {"what": "struck", "moment": 21, "store_at": 1021 * MS, "at": 25},
    {"what": "start", "worker": B, "pid": 101, "job": TWO, "token": 3, "at": 30},
    {"what": "end", "worker": B, "pid": 101, "job": TWO, "token": 3, "outcome": "done", "at": 31},
    {"what": "start", "worker": B, "pid": 101, "job": THREE, "token": 4, "at": 40},
    {"what": "end", "worker": B, "pid": 101, "job": THREE, "token": 4, "outcome": "failed", "at": 41},
    {"what": "start", "worker": B, "pid": 101, "job": THREE, "token": 5, "at": 50},
    {"what": "end", "worker": B, "pid": 101, "job": THREE, "token": 5, "outcome": "done", "at": 51},
    {"what": "start", "worker": B, "pid": 101, "job": FOUR, "token": 6, "at": 60},
    {"what": "end", "worker": B, "pid": 101, "job": FOUR, "token": 6, "outcome": "done", "at": 61},
    {"what": "gone", "worker": B, "pid": 101, "at": 70},
]


def moved(verb: str, old: str | None, new: str, *ids: int, **details: object) -> JobMoved:
    return JobMoved(verb, "storm", old, new, list(ids), details)


def slot_up(n: int, worker: str) -> SlotChanged:
    return SlotChanged("move", f"worker:storm:{n}", {"status": "up", "worker": worker})


FACTS: Log = [
    (1000, [WorkerChanged("register", A, {}), WorkerChanged("register", B, {}), slot_up(0, A), slot_up(1, B)]),
    (1004, [moved("add", None, "ready", ONE, TWO, THREE), moved("add", None, "blocked", FOUR)]),
    (1005, [moved("claim", "ready", "active", ONE, TWO, worker=A), moved("claim", "ready", "active", THREE, worker=B)]),
    (1012, [moved("finish", "active", "done", ONE), moved("unblock", "blocked", "ready", FOUR)]),
    (1023, [WorkerChanged("die", A, {"reason": "signaled"}), moved("die", "active", "ready", TWO, worker=A)]),
    (1042, [moved("fail", "active", "scheduled", THREE), moved("claim", "ready", "active", TWO, FOUR, worker=B)]),
    (1045, [moved("due", "scheduled", "ready", THREE)]),
    (1046, [moved("finish", "active", "done", TWO), moved("claim", "ready", "active", THREE, worker=B)]),
    (1062, [moved("finish", "active", "done", THREE, FOUR)]),
    (1070, [WorkerChanged("leave", B, {})]),
]


def quiet() -> Snapshot:
    """A snapshot on which everything holds."""
    found = tuple(events(FACTS))
    return Snapshot(
        plan=plan(),
        ledger=ledger(LINES),
        watch=Watch(
            samples=(Sample(ONE, 1, A, "busy"),),
            followed=found,
            missed=(),
            refused_offers=(),
            unasked_exits=(),
            before={"main": Vitals(20, 2, 0)},
            after={"main": Vitals(20, 2, 0)},
            worked_off=True,
            stop_seconds=0.1,
            stop_code=0,
        ),
        remains=Remains(),
        policy=RestartPolicy(),
        jobs={job.id: job for job in (a_job(ONE, 0, 1), two(), a_job(THREE, 2, 5, attempts=2), four())},
        runs=(
            a_run(1, ONE, A, "finish"),
            a_run(2, TWO, A, "die"),
            a_run(3, TWO, B, "finish"),
            a_run(4, THREE, B, "fail"),
            a_run(5, THREE, B, "finish"),
            a_run(6, FOUR, B, "finish"),
        ),
        events=found,
        workers={A: a_worker(A, 0, "dead"), B: a_worker(B, 1, "stopped")},
        certificates={A: a_certificate(1023 * MS, "signaled", TWO)},
        slots=(a_slot(0, History((1023 * MS,), 1)), a_slot(1, History())),
        counts={"done": 4, "ready": 0},
    )


def plan() -> Plan:
    jobs = (
        PlannedJob(0, WORK, 0, 0),
        PlannedJob(1, WORK, 5, 0),
        PlannedJob(2, FLAKY, 5, 0),
        PlannedJob(3, WORK, 5, 0, (0,)),
    )
    return Plan(Options(seed=1, jobs=4, workers=2), (Offer(0, jobs),), (Fault(5, "kill busy", 0.0),))


def poisoned() -> Plan:
    """The same plan, in which the first job should have killed its workers."""
    (offer,) = plan().offers
    first, *rest = offer.jobs
    return plan().replace(offers=(offer.replace(jobs=(first.replace(kind=POISON), *rest)),))


def ledger(lines: list[dict[str, Any]]) -> Ledger:
    made = Ledger()
    for line in lines:
        made.take(line)
    return made


def events(log: Log) -> list[Event]:
    return [Event(str(n), at * MS, "somebody", facts) for n, (at, facts) in enumerate(log, start=1)]


def a_job(id: int, number: int, token: int, **changes: Any) -> Job:
    known = {"id": id, "title": f"job {number}", "queue": "storm", "kind": "work", "status": "done", "priority": 0}
    return Job(
        **{
            **blank(Job),
            **known,
            "key": str(number),
            "token": token,
            "attempts": 1,
            "deaths": 0,
            "after": (),
            **changes,
        }
    )


def two() -> Job:
    return a_job(TWO, 1, 3, deaths=1, attempts=2)


def four() -> Job:
    return a_job(FOUR, 3, 6, after=(ONE,))


def a_run(token: int, job: int, worker: str, verb: str) -> Run:
    claimed, ended = (1000 + token) * MS, (1100 + token) * MS
    known = {"token": token, "job_id": job, "worker_id": worker, "claimed_at": claimed, "ended_at": ended, "verb": verb}
    return Run(**{**blank(Run), **known})


def a_worker(id: str, n: int, status: str) -> Worker:
    known = {"id": id, "slot": f"worker:storm:{n}", "status": status, "registered_at": 1000 * MS}
    return Worker(**{**blank(Worker), **known})


def a_certificate(died_at: int, reason: str, job: int | None) -> Certificate:
    return Certificate(**{**blank(Certificate), "died_at": died_at, "reason": reason, "job": job})


def a_slot(n: int, history: History) -> Slot:
    return Slot(**{**blank(Slot), "name": f"worker:storm:{n}", "queue": "storm", "n": n, "history": history})


def blank(kind: type[Record]) -> dict[str, Any]:
    """Nothing in every field: a check looks only at what it needs."""
    return dict.fromkeys(kind._fields)
