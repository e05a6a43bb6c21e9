"""The plan of a storm: which jobs are offered and what is broken, when. A seed draws the whole of it beforehand."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import TYPE_CHECKING

from rota.core.record import Record
from rota.core.times import MILLISECOND, MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.times import Duration

# The queues of a storm, each with a pool of its own: jobs of the first three are planned, a source fills the fourth.
FUNCTIONS, COROUTINES, COMMANDS, SOURCED = "storm", "storm-coroutines", "storm-commands", "storm-source"
PLANNED = {FUNCTIONS: 7, COROUTINES: 2, COMMANDS: 1}
WORK, FLAKY, POISON = "work", "flaky", "poison"
LENGTHS = {0: 4, 5: 4, 50: 2, 300: 1}

# What is done to a worker: SIGKILL with a job in hand or without, SIGTERM, SIGSTOP with SIGCONT after a while or never.
KILL_BUSY, KILL_IDLE, TERMINATE = "kill busy", "kill idle", "terminate"
FREEZE, HANG, KILL_ORCHESTRATOR, KILL_API = "freeze", "hang", "kill orchestrator", "kill API"
# What people do meanwhile: pause a queue, call a job off, settle a claim that they have lost.
PAUSE, CANCEL, SETTLE_LATE = "pause", "cancel", "settle late"
PEOPLE = (PAUSE, CANCEL, SETTLE_LATE)
WEIGHTS = {KILL_BUSY: 8, KILL_IDLE: 3, TERMINATE: 3, FREEZE: 3, HANG: 1, KILL_ORCHESTRATOR: 2, KILL_API: 2}
WEIGHTS |= dict.fromkeys(PEOPLE, 1)
FATAL = (KILL_BUSY, KILL_IDLE, TERMINATE, HANG)
KINDS = tuple(kind for kind in WEIGHTS if kind not in PEOPLE)  # people act in plans that ask for it

DATABASE, HTTP = "database", "http"  # what a crew reaches: the database itself, or an API in front of it

LARGEST_OFFER = 20
USUAL_PAUSE = 1500 * MILLISECOND
SHORTEST_FREEZE, LONGEST_FREEZE = 50 * MILLISECOND, 1800 * MILLISECOND
LONGEST_AWAY = 500 * MILLISECOND


class Options(Record):
    """What a person asks for. `faults` None: one in every second and a half. `over`: what the crew reaches."""

    seed: int
    store: str = "sqlite"
    jobs: int = 2000
    minutes: float = 1.0
    workers: int = 4
    faults: int | None = None
    over: str = DATABASE

    @property
    def span(self) -> Duration:
        return round(self.minutes * MINUTE)

    @property
    def pools(self) -> dict[str, int]:
        """As many workers as asked for run functions; half as many coroutines, or commands; one has the source.

        A crew over HTTP cannot look for work in a source.
        """
        half = max(1, self.workers // 2)
        pools = {FUNCTIONS: self.workers, COROUTINES: half, COMMANDS: half}
        return pools if self.over == HTTP else {**pools, SOURCED: 1}

    @property
    def keys(self) -> int:
        """How many keys the source has, besides the jobs that are offered."""
        return 0 if self.over == HTTP else self.jobs // 10


class PlannedJob(Record):
    """A job that will be offered. `after` are the numbers of jobs that it waits for."""

    number: int
    kind: str
    milliseconds: int
    priority: int
    after: tuple[int, ...] = ()
    queue: str = FUNCTIONS


class Offer(Record):
    """Jobs that are offered in one transaction, so long after the beginning."""

    at: Duration
    jobs: tuple[PlannedJob, ...]


class Fault(Record):
    """Something that is broken. `choice`, from 0 up to 1, says which worker; `lasts` how long it stays so."""

    at: Duration
    kind: str
    choice: float
    lasts: Duration = 0


class Plan(Record):
    """A storm from its beginning to its end."""

    options: Options
    offers: tuple[Offer, ...]
    faults: tuple[Fault, ...]

    @property
    def steps(self) -> list[Offer | Fault]:
        return sorted((*self.offers, *self.faults), key=lambda step: step.at)

    @property
    def jobs(self) -> dict[int, PlannedJob]:
        return {job.number: job for offer in self.offers for job in offer.jobs}


def draw(options: Options, kinds: Sequence[str] = KINDS) -> Plan:
    """The plan of a seed: the same options give the same plan, on any machine."""
    random = Random(options.seed)
    return Plan(options, _offers(random, options), _faults(random, options, kinds))


def _offers(random: Random, options: Options) -> tuple[Offer, ...]:
    """A tenth of the jobs at once, the rest in small groups while the storm blows."""
    groups = [list(range(options.jobs // 10))]
    while (done := sum(map(len, groups))) < options.jobs:
        groups.append(list(range(done, min(options.jobs, done + random.randint(1, LARGEST_OFFER)))))
    times = [0, *sorted(random.randrange(options.span * 9 // 10) for _ in groups[1:])]
    poison = _poison(random, groups)
    drawn: list[Offer] = []
    for at, group in zip(times, groups, strict=True):
        before = group[0] if group else 0
        drawn.append(Offer(at, tuple(_job(random, number, before, poison) for number in group)))
    return tuple(drawn)


def _poison(random: Random, groups: Sequence[Sequence[int]]) -> dict[int, int | None]:
    """Numbers of jobs that kill their worker, each with one of a later group that waits for it, where there is one."""
    everyone = list(chain.from_iterable(groups))
    found: dict[int, int | None] = {}
    for number in random.sample(everyone, min(5, len(everyone), 1 + len(everyone) // 300)):
        later = [other for group in groups if group and group[0] > number for other in group]
        found[number] = random.choice(later) if later else None
    return found


def _job(random: Random, number: int, before: int, poison: dict[int, int | None]) -> PlannedJob:
    kind = POISON if number in poison else FLAKY if random.random() < 0.05 else WORK
    (length,) = random.choices(list(LENGTHS), list(LENGTHS.values()))
    priority = random.choice((0, 0, 0, 1, 5))
    after = {random.randrange(before)} if before and random.random() < 0.1 else set()
    after |= {poisoned for poisoned, waiting in poison.items() if waiting == number}
    (queue,) = random.choices(list(PLANNED), list(PLANNED.values()))
    return PlannedJob(number, kind, length, priority, tuple(sorted(after)), queue)


def _faults(random: Random, options: Options, kinds: Sequence[str]) -> tuple[Fault, ...]:
    """One of each kind as far as they go, the rest by weight."""
    wanted = max(len(kinds), options.span // USUAL_PAUSE) if options.faults is None else options.faults
    drawn = random.sample(list(kinds), min(len(kinds), wanted))
    drawn += random.choices(kinds, [WEIGHTS[kind] for kind in kinds], k=wanted - len(drawn))
    random.shuffle(drawn)
    first, last = options.span // 20, options.span * 9 // 10
    times = sorted(random.randrange(first, max(first + 1, last)) for _ in drawn)
    return tuple(Fault(at, kind, random.random(), _lasts(random, kind)) for at, kind in zip(times, drawn, strict=True))


def _lasts(random: Random, kind: str) -> Duration:
    if kind == FREEZE:
        return random.randint(SHORTEST_FREEZE, LONGEST_FREEZE)
    return random.randint(0, LONGEST_AWAY) if kind in (KILL_ORCHESTRATOR, KILL_API, PAUSE) else 0


def kind_of(kind: str, queue: str) -> str:
    """The task that a planned kind means in a queue."""
    return kind if queue == FUNCTIONS else f"{kind}-{queue}"


def seconds(duration: Duration) -> float:
    return duration / SECOND
