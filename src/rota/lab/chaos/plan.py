"""The plan of a storm: which jobs are offered and which faults injected, when. A seed draws all of it beforehand."""

from __future__ import annotations

from itertools import chain
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING

from rota.core.orchestrator import LEASE
from rota.core.record import Record
from rota.core.times import MILLISECOND, MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.core.times import Duration

# The queues of a storm, one for each kind of worker. Jobs are planned for all of them except that of the source.
FUNCTIONS, COROUTINES, COMMANDS, SOURCED = "storm", "storm-coroutines", "storm-commands", "storm-source"
REMOTE, LOOPS = "storm-remote", "storm-loops"
PLANNED = {FUNCTIONS: 27, COROUTINES: 8, COMMANDS: 4, REMOTE: 4, LOOPS: 1}

# The crews of a storm: the main one, another one on the same database, and one that reaches only an HTTP API.
MAIN, BESIDE, FAR = "main", "beside", "far"
WORK, FLAKY, POISON = "work", "flaky", "poison"
LENGTHS = {0: 4, 5: 4, 50: 2, 300: 1}

# Faults of a worker: SIGKILL while it is busy or idle, SIGTERM, SIGSTOP with SIGCONT after a while or never.
KILL_BUSY, KILL_IDLE, TERMINATE = "kill busy", "kill idle", "terminate"
FREEZE, HANG, KILL_ORCHESTRATOR, KILL_API = "freeze", "hang", "kill orchestrator", "kill API"
# A whole crew is stopped until its lease has expired, and then goes on, like a host that was cut off or slept.
FREEZE_CREW = "freeze crew"
# What operators do meanwhile: pause a queue, cancel a job, settle a claim that they have lost.
PAUSE, CANCEL, SETTLE_LATE = "pause", "cancel", "settle late"
OPERATOR_FAULTS = (PAUSE, CANCEL, SETTLE_LATE)
# Faults of the store: its connections are cut, its server crashes, its write lock is held for a while.
CUT, CRASH, HOLD = "cut connections", "crash server", "hold lock"
STORE_FAULTS = (CUT, CRASH, HOLD)
WEIGHTS = {KILL_BUSY: 8, KILL_IDLE: 3, TERMINATE: 3, FREEZE: 3, HANG: 1, KILL_ORCHESTRATOR: 2, KILL_API: 2}
WEIGHTS |= {**dict.fromkeys(OPERATOR_FAULTS, 1), CUT: 2, CRASH: 1, HOLD: 3}
FATAL = (KILL_BUSY, KILL_IDLE, TERMINATE, HANG)
# Faults of which every worker of a crew may die, and for which its jobs may run again.
OF_A_CREW = (KILL_ORCHESTRATOR, FREEZE_CREW)

# Lower than what the workers of coroutines could run: two of them, five jobs each.
LIMITS = {COROUTINES: 6}

DATABASE, HTTP = "database", "http"  # how a crew reaches its store: directly, or over an API

LARGEST_OFFER = 20
USUAL_PAUSE = 1500 * MILLISECOND
SHORTEST_FREEZE, LONGEST_FREEZE = 50 * MILLISECOND, 1800 * MILLISECOND
LONGEST_AWAY = 500 * MILLISECOND
PAST_THE_LEASE = (LEASE + SECOND, LEASE + 4 * SECOND)


class Shape(Record):
    """Which programs run: the pools of each crew, bash loops, and the keys of a source.

    `behind_api` names the crews, and the queue of the loops, that reach only an HTTP API. `limits` are the concurrency
    limits of queues.
    """

    crews: dict[str, dict[str, int]]
    loops: int = 0
    behind_api: tuple[str, ...] = ()
    keys: int = 0
    limits: Mapping[str, int] = MappingProxyType({})


def single_crew(**pools: int) -> Shape:
    """Return the shape of the main crew without anything else."""
    return Shape({MAIN: pools})


class Options(Record):
    """The options of a storm.

    `faults` is their number; None means one every second and a half. `over` is how the main crew reaches its store.
    With `others` there are more crews besides the main one, and bash loops. With `own_server` PostgreSQL was started
    for the storm, and may be crashed.
    """

    seed: int
    store: str = "sqlite"
    jobs: int = 2000
    minutes: float = 1.0
    workers: int = 4
    faults: int | None = None
    over: str = DATABASE
    others: bool = True
    own_server: bool = False

    @property
    def span(self) -> Duration:
        return round(self.minutes * MINUTE)

    @property
    def pools(self) -> dict[str, int]:
        """The pools of the main crew: `workers` for functions, half as many for coroutines and commands, one source.

        A crew over HTTP cannot have a source.
        """
        half = max(1, self.workers // 2)
        pools = {FUNCTIONS: self.workers, COROUTINES: half, COMMANDS: half}
        return pools if self.over == HTTP else {**pools, SOURCED: 1}

    @property
    def crews(self) -> dict[str, dict[str, int]]:
        """The pools of each crew: a second one runs functions unless the main one is over HTTP; a third always is."""
        few = max(1, self.workers // 4)
        crews = {MAIN: self.pools}
        if self.others and self.over == DATABASE:
            crews[BESIDE] = {FUNCTIONS: few}
        return {**crews, FAR: {REMOTE: few}} if self.others else crews

    @property
    def behind_api(self) -> tuple[str, ...]:
        """The crews that reach only an HTTP API."""
        return tuple(crew for crew in self.crews if crew == FAR or self.over == HTTP)

    @property
    def shape(self) -> Shape:
        loops = (LOOPS,) if self.loops and self.over == HTTP else ()
        return Shape(self.crews, self.loops, (*self.behind_api, *loops), self.keys, LIMITS)

    @property
    def loops(self) -> int:
        """The number of bash loops."""
        return max(1, self.workers // 4) if self.others else 0

    @property
    def queues(self) -> dict[str, int]:
        """The queues that jobs are planned for, with their weights."""
        return {queue: n for queue, n in PLANNED.items() if self.others or queue not in (REMOTE, LOOPS)}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of faults that can be injected, except freezing a whole crew."""
        no_api = () if self.behind_api else (KILL_API,)
        not_here = (HOLD,) if self.store == "postgres" else (CUT, CRASH)
        spared = () if self.own_server else (CRASH,)
        return tuple(kind for kind in WEIGHTS if kind not in (*no_api, *not_here, *spared))

    @property
    def keys(self) -> int:
        """The number of keys of the source, in addition to the jobs that are offered."""
        return 0 if self.over == HTTP else self.jobs // 10


class PlannedJob(Record):
    """A job that will be offered. `after` has the numbers of the jobs that it waits for."""

    number: int
    kind: str
    milliseconds: int
    priority: int
    after: tuple[int, ...] = ()
    queue: str = FUNCTIONS


class Offer(Record):
    """Jobs that are offered in one transaction, at a time after the beginning."""

    at: Duration
    jobs: tuple[PlannedJob, ...]


class Fault(Record):
    """A fault to inject. `queue` and `choice`, from 0 up to 1, choose the worker; `lasts` says for how long."""

    at: Duration
    kind: str
    choice: float
    lasts: Duration = 0
    queue: str | None = None


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


def draw(options: Options, kinds: Sequence[str] | None = None) -> Plan:
    """Draw the plan of a seed. Equal options give an equal plan on any machine.

    Args:
        options: The seed and everything else that was asked for.
        kinds: The kinds of faults to draw from; by default, all that are possible with these options.
    """
    random = Random(options.seed)
    return Plan(options, _offers(random, options), _faults(random, options, options.kinds if kinds is None else kinds))


def _offers(random: Random, options: Options) -> tuple[Offer, ...]:
    """Offer a tenth of the jobs at the beginning, and the others in small groups during the storm."""
    groups = [list(range(options.jobs // 10))]
    while (done := sum(map(len, groups))) < options.jobs:
        groups.append(list(range(done, min(options.jobs, done + random.randint(1, LARGEST_OFFER)))))
    times = [0, *sorted(random.randrange(options.span * 9 // 10) for _ in groups[1:])]
    poison = _poison(random, groups)
    drawn: list[Offer] = []
    for at, group in zip(times, groups, strict=True):
        before = group[0] if group else 0
        drawn.append(Offer(at, tuple(_job(random, options, number, before, poison) for number in group)))
    return tuple(drawn)


def _poison(random: Random, groups: Sequence[Sequence[int]]) -> dict[int, int | None]:
    """Choose the jobs that kill their worker, each with a job of a later group that waits for it, if there is one."""
    everyone = list(chain.from_iterable(groups))
    poison: dict[int, int | None] = {}
    for number in random.sample(everyone, min(5, len(everyone), 1 + len(everyone) // 300)):
        later = [other for group in groups if group and group[0] > number for other in group]
        poison[number] = random.choice(later) if later else None
    return poison


def _job(random: Random, options: Options, number: int, before: int, poison: dict[int, int | None]) -> PlannedJob:
    kind = POISON if number in poison else FLAKY if random.random() < 0.05 else WORK
    (length,) = random.choices(list(LENGTHS), list(LENGTHS.values()))
    priority = random.choice((0, 0, 0, 1, 5))
    after = {random.randrange(before)} if before and random.random() < 0.1 else set()
    after |= {poisoned for poisoned, waiting in poison.items() if waiting == number}
    (queue,) = random.choices(list(options.queues), list(options.queues.values()))
    return PlannedJob(number, kind, length, priority, tuple(sorted(after)), queue)


def _faults(random: Random, options: Options, kinds: Sequence[str]) -> tuple[Fault, ...]:
    """Draw one fault of each kind and the others by weight; without a given number, also one frozen crew per minute."""
    wanted = max(len(kinds), options.span // USUAL_PAUSE) if options.faults is None else options.faults
    drawn = random.sample(list(kinds), min(len(kinds), wanted))
    drawn += random.choices(kinds, [WEIGHTS[kind] for kind in kinds], k=wanted - len(drawn))
    drawn += [FREEZE_CREW] * (options.span // MINUTE if options.faults is None else 0)
    random.shuffle(drawn)
    first, last = options.span // 20, options.span * 9 // 10
    times = sorted(random.randrange(first, max(first + 1, last)) for _ in drawn)
    return tuple(
        Fault(at, kind, random.random(), _lasts(random, kind), _queue(random, options, kind))
        for at, kind in zip(times, drawn, strict=True)
    )


def _queue(random: Random, options: Options, kind: str) -> str | None:
    """Choose the queue whose worker is hit, so that every kind of worker is hit equally often."""
    if kind in (*OF_A_CREW, KILL_API, *STORE_FAULTS):
        return None
    served = sorted({queue for pools in options.crews.values() for queue in pools})
    # Nothing would end a hung bash loop: its lease only lets another worker begin.
    return random.choice([*served, LOOPS] if options.loops and kind != HANG else served)


def _lasts(random: Random, kind: str) -> Duration:
    if kind == FREEZE:
        return random.randint(SHORTEST_FREEZE, LONGEST_FREEZE)
    if kind == FREEZE_CREW:
        return random.randint(*PAST_THE_LEASE)
    return random.randint(0, LONGEST_AWAY) if kind in (KILL_ORCHESTRATOR, KILL_API, PAUSE, HOLD, CRASH) else 0


# The names of the kinds of workers, by their queues.
WORKERS = {
    FUNCTIONS: "function",
    COROUTINES: "coroutine",
    COMMANDS: "command",
    SOURCED: "source",
    REMOTE: "remote",
    LOOPS: "bash loop",
}


def kind_of(kind: str, queue: str) -> str:
    """Return the task of a planned kind of job in a queue."""
    return kind if queue in (FUNCTIONS, REMOTE, LOOPS) else f"{kind}-{queue}"


def seconds(duration: Duration) -> float:
    return duration / SECOND
