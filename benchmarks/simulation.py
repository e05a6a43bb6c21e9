"""How many hosts and workers one PostgreSQL carries, from what statements cost on this machine.

    ./dev bench simulation       from the figures of the last run that wrote the docs

A discrete simulation: hosts with workers, each host with one exchange under way at a time, as its orchestrator has; a
server with cores that serve one statement each, and one write-ahead log whose syncs a group of commits share. What a
statement costs is measured; a renewal is reckoned as an exchange of nothing. What is assumed stands in `ASSUMED`, and
locks between statements are left out.

Hosts are added until workers wait for the server. So at that point it is always full, whatever the jobs: what tells
long jobs from short ones is how many workers that takes, and what each of them costs it.
"""

from __future__ import annotations

import heapq
import json
import random
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

from benchmarks import _report
from rota.core.record import Record
from rota.lab.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Mapping

ASSUMED = {"cores of the server": 8, "workers on a host": 20, "ms to the server and back": 0.5}
LENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0)
MOST_HOSTS, BENT, ENOUGH = 2048, 0.9, 15_000
RENEW_EVERY, WINDOW_SECONDS, WINDOW_MOST = 4.0, 0.03, 64
LEAST, LEAST_JOB = 1e-5, 1e-6  # seconds: what is measured as less is lost in the noise
SEED = 7


class Costs(Record):
    """Seconds and bytes, measured on one machine."""

    exchange: float  # of the server, for an exchange of nothing
    job: float  # of the server, for each job settled and claimed
    host: float  # of the orchestrator, for an exchange
    host_job: float  # of the orchestrator, for each job
    sync: float  # of the disk, for the commits that wait for it
    wal_job: float  # bytes of the log for each job


class Result(Record):
    """What came of so many hosts."""

    hosts: int
    workers: int
    jobs_per_second: float
    busy: float  # share of the workers' time that is work
    server: float  # share of the server's cores
    batch: float
    exchange_p99: float
    wal_per_second: float


class Host:
    """One orchestrator: outcomes to report, workers to find work for."""

    def __init__(self, workers: int) -> None:
        self.outcomes = 0
        self.under_way = False
        self.room = deque(range(workers))  # those without a window behind the one in hand
        self.queued = [0] * workers
        self.is_idle = [True] * workers


class World:
    """Hosts and one server; time is what the next event says."""

    def __init__(self, costs: Costs, hosts: int, workers: int, job: float, cores: int, round_trip: float) -> None:
        self._costs, self._job, self._cores, self._round_trip = costs, job, cores, round_trip
        self._window = max(1, min(WINDOW_MOST, int(WINDOW_SECONDS / job)))
        self._draw = random.Random(SEED)
        self._events: list[tuple[float, int, str, int, Any]] = []
        self._numbers = count()
        self._hosts = [Host(workers) for _ in range(hosts)]
        self._waiting: deque[tuple[int, int, list[int], float]] = deque()
        self._free = cores
        self._group: list[tuple[int, int, list[int], float]] = []
        self._syncing = False
        self.done = self.exchanges = 0
        self.work = self.served = 0.0
        self.took: list[float] = []

    def run(self, warm: float, seconds: float) -> None:
        """Play it; what happens before `warm` is not counted."""
        for index, host in enumerate(self._hosts):
            self._at(self._draw.uniform(0, RENEW_EVERY), "renew", index, None)
            for worker in range(len(host.queued)):  # all in the midst of their work, none in step with another
                host.is_idle[worker] = False
                self._at(self._draw.uniform(0, self._job * self._window), "ends", index, (worker, self._window))
        while self._events and self._events[0][0] < warm + seconds:
            now, _, what, index, more = heapq.heappop(self._events)
            if now < warm:
                self.done = self.exchanges = 0
                self.work = self.served = 0.0
                self.took = []
            getattr(self, f"_{what}")(now, index, more)

    def _at(self, when: float, what: str, index: int, more: Any) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), what, index, more))

    def _ends(self, now: float, index: int, more: tuple[int, int]) -> None:
        """A worker has done its window: report it, and go on with the next if there is one."""
        worker, jobs = more
        host = self._hosts[index]
        host.outcomes += jobs
        host.is_idle[worker] = True
        self._begin(now, index, worker)
        self._exchange(now, index)

    def _begin(self, now: float, index: int, worker: int) -> None:
        host = self._hosts[index]
        jobs = host.queued[worker]
        if jobs and host.is_idle[worker]:
            host.queued[worker], host.is_idle[worker] = 0, False
            takes = jobs * self._job * self._draw.uniform(0.7, 1.3)
            self.work += takes
            self._at(now + takes, "ends", index, (worker, jobs))
        if not host.queued[worker] and worker not in host.room and (self._window > 1 or host.is_idle[worker]):
            host.room.append(worker)

    def _exchange(self, now: float, index: int) -> None:
        host = self._hosts[index]
        if host.under_way or not (host.outcomes or host.room):
            return
        jobs, wanting = host.outcomes, list(host.room)
        host.outcomes, host.under_way = 0, True
        host.room.clear()
        self._at(
            now + self._round_trip / 2, "arrives", index, (max(jobs, len(wanting) * self._window), jobs, wanting, now)
        )

    def _renew(self, now: float, index: int, _: None) -> None:
        self._at(now + self._round_trip / 2, "arrives", index, (0, 0, None, now))
        self._at(now + RENEW_EVERY, "renew", index, None)

    def _arrives(self, now: float, index: int, more: Any) -> None:
        self._waiting.append((index, *more))
        self._serve(now)

    def _serve(self, now: float) -> None:
        while self._free and self._waiting:
            request = self._waiting.popleft()
            self._free -= 1
            takes = self._costs.exchange + self._costs.job * request[1]
            self.served += takes
            self._at(now + takes, "served", request[0], request)

    def _served(self, now: float, _: int, request: Any) -> None:
        self._free += 1
        self._group.append(request)
        self._serve(now)
        self._sync(now)

    def _sync(self, now: float) -> None:
        """Whoever has come by now shares one sync; the rest wait for the next."""
        if self._group and not self._syncing:
            self._syncing = True
            group, self._group = self._group, []
            self._at(now + self._costs.sync, "synced", 0, group)

    def _synced(self, now: float, _: int, group: list[Any]) -> None:
        self._syncing = False
        for index, size, jobs, wanting, began in group:
            if wanting is not None:
                takes = self._costs.host + self._costs.host_job * size
                self._at(now + self._round_trip / 2 + takes, "answered", index, (jobs, wanting, began))
        self._sync(now)

    def _answered(self, now: float, index: int, more: tuple[int, list[int], float]) -> None:
        jobs, wanting, began = more
        host = self._hosts[index]
        host.under_way = False
        self.done, self.exchanges = self.done + jobs, self.exchanges + 1
        self.took.append(now - began)
        for worker in wanting:
            host.queued[worker] = self._window
            self._begin(now, index, worker)
        self._exchange(now, index)


def simulate(costs: Costs, hosts: int, job: float, cores: int, workers: int, round_trip: float) -> Result:
    """What so many hosts do with jobs of this length, in the steady state."""
    world = World(costs, hosts, workers, job, cores, round_trip)
    rate = hosts * workers / max(job, 0.005)
    seconds = max(0.2, min(20.0, ENOUGH / rate))  # enough jobs to tell, and no more
    world.run(seconds / 2, seconds)
    everyone = hosts * workers
    return Result(
        hosts,
        everyone,
        world.done / seconds,
        min(1.0, world.done * job / (everyone * seconds)),
        world.served / (cores * seconds),
        world.done / max(1, world.exchanges),
        percentile(world.took, 0.99) if world.took else 0.0,
        world.done / seconds * costs.wal_job,
    )


def bend(costs: Costs, job: float, cores: int, workers: int, round_trip: float) -> tuple[Result, Result]:
    """The most hosts whose workers hardly wait, and the fewest that were found whose workers do."""

    def at(hosts: int) -> Result:
        return simulate(costs, hosts, job, cores, workers, round_trip)

    alone = good = at(1)
    bad = None
    while bad is None and good.hosts < MOST_HOSTS:
        found = at(good.hosts * 2)
        if found.busy < BENT * alone.busy:
            bad = found
        else:
            good = found
    while bad is not None and bad.hosts - good.hosts > max(1, good.hosts // 8):
        found = at((good.hosts + bad.hosts) // 2)
        if found.busy < BENT * alone.busy:
            bad = found
        else:
            good = found
    return good, bad or good


def costs_of(run: dict[str, Any]) -> Costs | None:
    """From the figures of a run; None when it has not measured them."""
    exchanges = {
        int(str(row["jobs/s"]).split()[1]): (row["rota"], row["raw"])
        for row in run.get("parts", {}).get("rows postgres", {}).get("rows", ())
        if str(row["jobs/s"]).startswith("exchange")
    }
    growth = {row["what"]: row["measured"] for row in run.get("parts", {}).get("growth postgres", {}).get("rows", ())}
    if not {1, 100} <= set(exchanges) or not growth:
        return None
    sync = growth["fsync of a page, ms"] / 1e3
    server, per_job = _line(1 / exchanges[1][1] - sync, 100 / exchanges[100][1] - sync)
    whole, whole_job = _line(1 / exchanges[1][0] - sync, 100 / exchanges[100][0] - sync)
    wal = growth["bytes of log per job, 100 at once"]
    return Costs(server, per_job, max(LEAST, whole - server), max(LEAST_JOB, whole_job - per_job), sync, wal)


def _line(one: float, hundred: float) -> tuple[float, float]:
    """What an exchange costs at all, and what each job in it costs, from exchanges of one and of a hundred."""
    per_job = max(LEAST_JOB, (hundred - one) / 99)
    return max(LEAST, one - per_job), per_job


def lost_in_noise(costs: Mapping[str, float]) -> list[str]:
    """The costs that came out as nothing, which no cost is: the run was too noisy to tell them."""
    least = {"exchange": LEAST, "job": LEAST_JOB, "host": LEAST, "host_job": LEAST_JOB}
    return [name for name, bound in least.items() if costs[name] <= bound]


def document(run: dict[str, Any]) -> dict[str, Any]:
    """The simulation of a run's figures, for its document."""
    costs = costs_of(run)
    if costs is None:
        return {}
    cores, workers, ms = (
        int(ASSUMED["cores of the server"]),
        int(ASSUMED["workers on a host"]),
        ASSUMED["ms to the server and back"],
    )
    table = []
    for job in LENGTHS:
        last, bent = bend(costs, job, cores, workers, ms / 1e3)
        table.append({"job": job, "last": _document(last), "bent": _document(bent)})
    return {
        "assumed": ASSUMED,
        "seed": SEED,
        "costs": {name: getattr(costs, name) for name in Costs.__annotations__},
        "table": table,
    }


def _document(result: Result) -> dict[str, float]:
    return {name: getattr(result, name) for name in Result.__annotations__}


def rows(told: dict[str, Any]) -> list[dict[str, _report.Cell]]:
    """As a table, a line for each length of job."""
    found: list[dict[str, _report.Cell]] = []
    cores = told["assumed"]["cores of the server"]
    for each in told["table"]:
        last, bent = each["last"], each["bent"]
        found.append(
            {
                "jobs of": f"{each['job'] * 1e3:g} ms" if each["job"] < 1 else f"{each['job']:g} s",
                "hosts": last["hosts"],
                "workers": last["workers"],
                "jobs/s": last["jobs_per_second"],
                "workers busy": f"{last['busy']:.0%}",
                "server busy": f"{last['server']:.0%}",
                "of a core, per worker": f"{last['server'] * cores / last['workers']:.2%}",
                "jobs in an exchange": last["batch"],
                "exchange p99, ms": last["exchange_p99"] * 1e3,
                "log, MB/s": last["wal_per_second"] / 1e6,
                "connections": last["hosts"] * 2,
                "past it": f"{bent['hosts']} hosts, workers busy {bent['busy']:.0%}" if bent != last else "not reached",
            }
        )
    return found


def main() -> None:
    parser = _report.arguments("How many hosts one PostgreSQL carries.")
    parser.add_argument("--from", dest="given", default="docs/performance.json", help="the figures of a run")
    options = parser.parse_args()
    with open(options.given, encoding="utf-8") as file:
        told = document(json.load(file))
    if not told:
        raise SystemExit(f"{options.given} has no figures of PostgreSQL to reckon with")
    _report.show(f"simulation: the most hosts before it bends; {ASSUMED}", rows(told), options.json)


if __name__ == "__main__":
    main()
