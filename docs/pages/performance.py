"""The page of figures, from one whole run of `./dev bench --docs`: no number on it is typed by hand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import simulation
from benchmarks._report import cell_text
from benchmarks._targets import Target, targets
from benchmarks.peers.compare import RAW
from docs.pages import chart
from docs.pages.markdown import join, table

DATA = Path(__file__).resolve().parent.parent / "performance.json"
GROUPS = ("SQLite", "PostgreSQL", "Redis")

HEAD = """# Performance

<!-- Written by `./dev bench --docs` from docs/performance.json: change docs/pages/performance.py instead. -->

rota settles what its workers have done and claims what they do next in one transaction, many jobs at a time. That is
where its speed comes from: a commit for each job is no faster than the other systems here, however it is written.

Figures depend on the machine more than on anything else. Take your own: `rota bench` measures rota against the raw limits
of your disk and processor in about two minutes, and `./dev bench` in a clone of the project takes this whole page anew."""

FAIR = """What is compared, and how:

- Every system runs the same job, which leaves one mark in a file, with its own workers where it has any. A queue is filled
  first, then worked off from the first mark that is seen to the last. What a system still has to commit after the last
  mark is not counted, for any of them.
- Systems take turns, round after round, with rota and the raw limits among them: a slow minute hits whoever has its turn.
  The table has medians; the spread is how far apart the middle half of the rounds is, as a share of the median.
- Each runs with the durable settings that its own documentation has. They are not equal. rota, huey, persist-queue, DBOS
  and everything on PostgreSQL wait for the disk at each commit. litequeue and taskito do not, and Redis syncs once a second,
  which is what it recommends to those who want their data kept.
- rota does more for each job than most: a run row with its history, an event for every change, counters, a token that
  fences a claim, and processes that are watched. None of it can be turned off, here or elsewhere.
- The raw limit is plain Python that writes the same rows with the same durability and nothing around them. On SQLite it
  hands jobs to bare processes over pipes; on PostgreSQL it has no workers at all."""

LIMITS = """| figure | what limits it |
| --- | --- |
| work off a queue, SQLite | one core: the orchestrator that speaks with its workers and writes rows. The disk is synced once for each exchange, so it hardly counts |
| work off a queue, PostgreSQL | what the server takes to update, insert and index the rows of an exchange; then the round trip |
| enqueue one by one | a sync of the disk for each job. Add many at once where you can |
| enqueue in bulk | the checks and the JSON of each job, in Python |
| pickup | one commit to add, one to claim, and a wake-up of two processes |
| runs again after a kill | the kernel's word of the death, one commit, and a hand-over |
| cost of a claim | the depth of one index, which grows with the logarithm of what waits |
| one SQLite file | one writer at a time: more processes share the same rate, in turn, and none starves |
| one PostgreSQL | its processor first, then its log; see the estimate below |"""

AFTER = """**What to do past that point.** In this order:

1. *Give short jobs more to do.* The cost is by the job. Jobs of a second and more hardly load a server.
2. *Put a pooler in front* once there are more than a few hundred connections: an orchestrator has two, whatever its number
   of workers, and [rota works through PgBouncer](howto/postgres.md).
3. *Partition queues over databases.* Jobs of different queues share nothing but the server. Give each group of queues a
   database of its own, and each host the one it serves: what two databases carry is twice what one does, since a claim never
   looks beyond its own. Dependencies, keys and limits hold within one database.
4. *Read from a replica.* The dashboard, `rota top` and metrics only read. On a replica they cost the primary nothing, and show
   what was true a moment ago. Whatever claims, settles or steers needs the primary.

What the simulation leaves out: locks between statements (claims skip rows that others hold, and counters are sharded, so
there are few), checkpoints and vacuum, which take their share of the disk, and whatever else the server does."""


@cache
def run() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def page() -> str:
    """The page itself."""
    return of(run())


def picture() -> str:
    """Its chart."""
    return picture_of(run())


def of(run: dict[str, Any]) -> str:
    return join(
        HEAD,
        _taken(run),
        "## Against other systems",
        "![Jobs per second worked off from a full queue, by system](images/performance.svg)",
        _peers(run),
        FAIR,
        "Installed and set up so:",
        _systems(run),
        "## Targets",
        "Each was set before it was measured. A figure that is not met is shown as it came out.",
        table(("what", "wanted", "measured", "met"), [_target(target) for target in targets(run)]),
        "## How cost grows",
        *_part(run, "depth", "With the depth of a queue: the cost of a claim, with as many jobs scheduled, blocked and finished beside those that wait."),
        *_part(run, "crew sqlite", "With workers, on SQLite: no-op jobs, then jobs that take a while."),
        *_part(run, "crew postgres", "The same on PostgreSQL."),
        *_part(run, "load sqlite", "At half load, on SQLite: what jobs wait, and what they would wait for workers that cost nothing."),
        *_part(run, "load postgres", "The same on PostgreSQL."),
        *_part(run, "writers", "With writers at once on one file."),
        *_part(run, "beats sqlite", "With registered workers that beat, on SQLite; played faster than it is, so that it takes less than an interval."),
        *_part(run, "beats postgres", "The same on PostgreSQL."),
        *_part(run, "fanout", "With those who follow the live feed over HTTP."),
        "## Capacity to plan with",
        *_capacity(run),
        "## What limits each figure",
        LIMITS,
        "## Past one machine",
        *_estimate(run),
        AFTER,
    )  # fmt: skip


def picture_of(run: dict[str, Any]) -> str:
    values = []
    for system in run["peers"]:
        rates = [each["median"] for name, each in system["figures"].items() if name.startswith("drain")]
        if rates:
            values.append(
                (system["name"] if system["name"] not in ("SAQ",) else system["label"], system["on"], max(rates))
            )
    return chart.bars(
        "Worked off from a full queue, best of 1, 2 and 4 worker processes", "jobs/s", GROUPS, values, "rota", RAW
    )


def _taken(run: dict[str, Any]) -> str:
    machine = run["machine"]
    size = "a quick run, with smaller counts, " if run["quick"] else ""
    return (
        f"**Taken on {run['taken']}**, {size}on a shared machine with {machine['cores']} cores and {machine['memory_gb']} GB"
        f" ({machine['system']}, Python {machine['python']}, rota {run['rota']}, other programs at work beside it: a load of"
        f" {machine['load']} when it began), {run['rounds']} rounds. Compare figures only with one another: on such a machine they move by"
        " half from one hour to the next."
    )


def _peers(run: dict[str, Any]) -> str:
    heads = (
        "system",
        "on",
        "enqueue one / bulk",
        "worked off by 1 / 2 / 4",
        "spread",
        "pickup p50 / p99, ms",
        "job of a killed worker runs again",
    )
    return table(heads, [_peer(system) for system in run["peers"]])


def _peer(system: dict[str, Any]) -> list[str]:
    figures = system["figures"]

    def shown(*names: str, which: str = "median") -> str:
        return " / ".join(cell_text(figures.get(name, {}).get(which)) for name in names)

    name = f"**{system['name']}**" if system["name"] == "rota" else system["name"]
    if system["missing"]:
        return [name, system["on"], "–", f"missing: {system['missing']}", "–", "–", "–"]
    pickup = f"{shown('pickup')} / {shown('pickup', which='p99')}"
    return [
        name,
        system["on"],
        shown("enqueue one", "enqueue bulk"),
        shown("drain 1", "drain 2", "drain 4"),
        shown("drain 2", which="spread"),
        pickup,
        _again(system),
    ]


def _again(system: dict[str, Any]) -> str:
    again = system["again"]
    if system["name"] == RAW:
        return "–"
    if again is None:
        return f"not in {system['again_within']:g} s"
    if isinstance(again, str):
        return f"not measured: {again}"
    return f"{again / 1000:.1f} s" if again >= 1000 else f"{again:.0f} ms"


def _systems(run: dict[str, Any]) -> str:
    rows = [
        [system["name"], system["on"], ", ".join(system["installed"]) or "–", system["durable"], system["note"]]
        for system in run["peers"]
    ]
    return table(("system", "on", "installed", "durability", "what else"), rows)


def _target(target: Target) -> list[str]:
    met = {True: "yes", False: "**no**", None: "–"}[target.met]
    return [target.what, target.wanted, target.measured, met]


def _part(run: dict[str, Any], name: str, about: str) -> list[str]:
    """One benchmark as a table, under a sentence."""
    found = run["parts"].get(name, {})
    if "rows" not in found:
        return [about, f"Not measured: {found.get('error', 'left out of this run')}."]
    heads = [head.strip() for head in found["rows"][0]]
    return [about, table(heads, [[cell_text(cell) for cell in row.values()] for row in found["rows"]])]


def _capacity(run: dict[str, Any]) -> list[str]:
    parts = []
    rates = {
        (system["on"], name): each["median"]
        for system in run["peers"]
        if system["name"] == "rota"
        for name, each in system["figures"].items()
    }
    for on in ("SQLite", "PostgreSQL"):
        best = max(
            (rate for (where, name), rate in rates.items() if where == on and name.startswith("drain")), default=None
        )
        if best is not None:
            parts.append(
                f"{on}: {cell_text(best)} no-op jobs/s in all, {cell_text(best / run['machine']['cores'])} for each core"
            )
    text = "; ".join(parts)
    return [
        f"Jobs per second and core of the machine above, the crew, the workers and the database together. {text}."
        " A job that does something adds its own time to that; the overhead stays.",
        *_part(run, "growth sqlite", "Bytes, on SQLite. The file does not shrink: what is pruned makes room for what comes, so a file is as large as the most"
               " that was kept at once. History is kept for seven days or a million jobs of each queue, unless you set it otherwise."),
        *_part(run, "growth postgres", "On PostgreSQL."),
    ]  # fmt: skip


def _estimate(run: dict[str, Any]) -> list[str]:
    told = run.get("simulation")
    if not told:
        return ["This run has no figures to estimate from."]
    costs = told["costs"]
    rows = simulation.rows(told)
    return [
        "One PostgreSQL carries all hosts; each host has one orchestrator. How many that may be is not measured here but reckoned, by a"
        f" [simulation](../benchmarks/simulation.py) (seed {told['seed']}) from what statements cost above: an exchange takes the server"
        f" {costs['exchange'] * 1e3:.2f} ms and {costs['job'] * 1e6:.0f} µs for each job in it, the orchestrator {costs['host'] * 1e3:.2f} ms and"
        f" {costs['host_job'] * 1e6:.0f} µs, a sync of the disk {costs['sync'] * 1e3:.2f} ms, a job {costs['wal_job']:,.0f} bytes of the log. Assumed: "
        + ", ".join(f"{value:g} {name}" for name, value in told["assumed"].items())
        + ".",
        "The table has the most hosts whose workers are at work nine tenths of the time that they would be with the server to"
        " themselves. Past that point nothing breaks: exchanges take longer and carry more jobs each, and workers wait for them.",
        table([head for head in rows[0]], [[cell_text(cell) for cell in row.values()] for row in rows]),
    ]
