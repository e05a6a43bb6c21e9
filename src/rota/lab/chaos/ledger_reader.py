"""The ledger, read: which workers lived, which handlers ran and when, which faults hit, which jobs were accepted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rota.lab.chaos.plan import FATAL, FREEZE, FREEZE_CREW, HANG, LOOPS, OF_A_CREW, POISON

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.core.times import Duration, Instant


@dataclass
class Execution:
    """One call of a handler.

    `over_at` is its end or the end of its process; `outcome` is None if it was cut short. One with `own` has a process
    of its own, which may outlive its worker's.
    """

    job: int
    token: int
    worker: str
    started_at: Instant
    over_at: Instant | None = None
    outcome: str | None = None
    own: bool = False

    def overlaps(self, later: Execution, life: Life | None) -> bool:
        """Return whether it still ran when a later execution of its job began.

        `life` is its own worker's: one whose crew was frozen by then could not know that its claim had expired.
        """
        still_ran = self.over_at is None or self.over_at > later.started_at
        return still_ran and not (life is not None and life.was_frozen_with_crew(later.started_at))

    def token_did_not_grow(self, later: Execution, life: Life | None) -> bool:
        """Return whether a later execution has its token, or an older one that its worker should have known to be lost.

        `life` is the worker of the later one.
        """
        was_frozen = life is not None and life.was_frozen_with_crew(later.started_at)
        return later.token == self.token or (later.token < self.token and not was_frozen)


@dataclass
class Injected:
    """A fault that was injected.

    `at` is the moment of the signal on the clock that all processes share, `store_at` on the store's. It hits
    `workers`, or all of a crew, and lasts for a while.
    """

    kind: str
    at: Instant
    store_at: Instant
    workers: tuple[str, ...] = ()
    crew: str | None = None
    lasts: Duration = 0


@dataclass
class Life:
    """The life of a worker, from its first line to the end of its connection.

    `running` are its executions by token, `cut` those that were cut short.
    """

    worker: str
    slot: str
    pid: int
    up_at: Instant
    gone_at: Instant | None = None
    running: dict[int, Execution] = field(default_factory=dict)
    cut: list[Execution] = field(default_factory=list)
    idle_since: Instant = 0
    frozen: bool = False
    faults: list[Injected] = field(default_factory=list)

    @property
    def current(self) -> Execution | None:
        """The execution that it runs; the oldest if it runs several."""
        return next(iter(self.running.values()), None)

    @property
    def is_supervised(self) -> bool:
        """Whether an orchestrator started it, in a slot. A bash loop has none."""
        return self.slot.startswith("worker:")

    @property
    def queue(self) -> str:
        return self.slot.split(":")[1] if self.is_supervised else LOOPS

    @property
    def ended_with(self) -> list[Execution]:
        """The executions that its end cut short."""
        return [*self.running.values(), *self.cut]

    def was_frozen_with_crew(self, at: Instant) -> bool:
        """Return whether its crew was frozen by then, so that another may have taken over its jobs."""
        return any(fault.kind == FREEZE_CREW and fault.at <= at for fault in self.faults)

    def was_ended_by_fault(self, kinds: Mapping[int, str]) -> bool:
        """Return whether it was hit by something that ends a worker: a fault or a poison job. `kinds`: of the jobs."""
        poisoned = any(kinds.get(execution.job) == POISON for execution in self.ended_with)
        return poisoned or any(fault.kind in (*FATAL, FREEZE_CREW) for fault in self.faults)


@dataclass
class Pause:
    """A time in which nothing of a queue may start, from the acknowledgement of its pause until it is resumed."""

    queue: str
    began_at: Instant
    over_at: Instant | None = None


@dataclass
class Ledger:
    """The lives, executions and faults of a storm, from the lines that were read so far."""

    lives: list[Life] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)
    faults: list[Injected] = field(default_factory=list)
    offered: set[int] = field(default_factory=set)
    accepted: dict[int, int] = field(default_factory=dict)
    living: dict[str, Life] = field(default_factory=dict)
    pauses: list[Pause] = field(default_factory=list)
    called_off: set[int] = field(default_factory=set)
    cancelled: dict[int, Instant] = field(default_factory=dict)
    visitors: set[str] = field(default_factory=set)
    settled_late: list[tuple[int, int]] = field(default_factory=list)
    refused_late: int = 0

    def take(self, line: dict[str, Any]) -> None:
        """Add one line."""
        at: Instant = line["at"]
        match line["what"]:
            case "up":
                life = Life(line["worker"], line["slot"], line["pid"], at, idle_since=at)
                self.lives.append(life)
                self.living[life.worker] = life
            case "start":
                own = line.get("own", False)
                self._start(Execution(line["job"], line["token"], line["worker"], at, own=own))
            case "end":
                self._end(line["worker"], line["token"], at, line["outcome"])
            case "over":
                self._end(line["worker"], line["token"], at)
            case "gone":
                self._gone(line["worker"], at)
            case "fault":
                workers = tuple(line.get("workers", ()))
                crew, lasts = line.get("crew"), line.get("lasts", 0)
                self._hit(Injected(line["kind"], at, line["store_at"], workers, crew, lasts))
            case "struck":
                fault = self.faults[-1]
                fault.at, fault.store_at = line["moment"], line["store_at"]
            case "spared":
                self._spare(self.faults.pop())
            case "thaw":
                for life in self._living(line["workers"]):
                    life.frozen = False
            case "offered":
                self.offered.update(line["numbers"])
            case "accepted":
                self.accepted.update(zip(line["numbers"], line["jobs"], strict=True))
            case _:
                self._take_from_operator(line, at)

    def _take_from_operator(self, line: dict[str, Any], at: Instant) -> None:
        match line["what"]:
            case "paused":
                self.pauses.append(Pause(line["queue"], at))
            case "resumed":
                for pause in self.pauses:
                    if pause.queue == line["queue"] and pause.over_at is None:
                        pause.over_at = at
            case "called off":
                self.called_off.add(line["job"])
            case "cancelled":
                self.cancelled[line["job"]] = at
            case "visitor":
                self.visitors.add(line["worker"])
            case "late":
                self.settled_late.append((line["job"], line["token"]))
            case "late refused":
                self.refused_late += 1
            case other:
                raise ValueError(f"the ledger has a line that nobody writes: {other!r}")

    def lives_hit_by(self, kind: str) -> list[tuple[Life, Injected]]:
        """Return the lives that were hit by faults of this kind."""
        return [(life, fault) for life in self.lives for fault in life.faults if fault.kind == kind]

    def faults_of_crew(self, crew: str | None) -> list[Injected]:
        """Return the faults that hit a whole crew."""
        return [fault for fault in self.faults if fault.kind in OF_A_CREW and fault.crew == crew]

    def faults_of(self, kind: str) -> list[Injected]:
        return [fault for fault in self.faults if fault.kind == kind]

    def executions_by_job(self) -> dict[int, list[Execution]]:
        """Return the executions of each job, in order."""
        by_job: dict[int, list[Execution]] = {}
        for execution in self.executions:
            by_job.setdefault(execution.job, []).append(execution)
        return by_job

    def _start(self, execution: Execution) -> None:
        self.executions.append(execution)
        if execution.worker in self.living:
            self.living[execution.worker].running[execution.token] = execution

    def _end(self, worker: str, token: int, at: Instant, outcome: str | None = None) -> None:
        """End an execution; without an outcome, it was cut short."""
        life = self.living.get(worker)
        for execution in reversed(self.executions):
            if execution.token == token and execution.over_at is None:
                execution.over_at, execution.outcome = at, outcome
                if outcome is None and life is not None:
                    life.cut.append(execution)
                break
        if life is not None:
            life.running.pop(token, None)
            if not life.running:
                life.idle_since = at

    def _gone(self, worker: str, at: Instant) -> None:
        life = self.living.pop(worker, None)
        if life is None:
            return
        life.gone_at = at
        for execution in life.running.values():
            if not execution.own:
                execution.over_at = at

    def _hit(self, fault: Injected) -> None:
        self.faults.append(fault)
        for life in self._living(fault.workers):
            life.faults.append(fault)
            life.frozen = life.frozen or fault.kind in (FREEZE, HANG, FREEZE_CREW)

    def _living(self, workers: Iterable[str]) -> list[Life]:
        return [self.living[worker] for worker in workers if worker in self.living]

    def _spare(self, fault: Injected) -> None:
        """Take back a fault whose signal came after the end of its process."""
        for life in self.lives:
            if fault in life.faults:
                life.faults.remove(fault)


class LedgerReader:
    """Follows the ledger's file while it grows."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - open until the storm is over
        self._rest = b""
        self.ledger = Ledger()

    def read_on(self) -> Ledger:
        """Return the ledger with every line that is complete by now."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            self.ledger.take(json.loads(line))
        return self.ledger

    def close(self) -> None:
        self._file.close()
