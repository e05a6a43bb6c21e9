"""The targets, each judged from what one whole run measured. What was not measured is neither met nor missed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from benchmarks.peers.compare import RAW
from benchmarks.peers.table import POSTGRES, REDIS, SQLITE
from rota.core.record import Record
from rota.lab.percentiles import text

Run = dict[str, Any]
Judge = Callable[[Run], tuple[str, bool]]
TUNED = "pgqueuer, batch 100"
DEPTH = {"sqlite": 5_000_000, "postgres": 1_000_000}
DEAD, DEAD_AT_MOST = 1_000_000, 5
KILLS = 200


class Target(Record):
    """One row of the table: what was wanted, what was measured."""

    what: str
    wanted: str
    measured: str
    met: bool | None


class NotMeasured(Exception):
    """The run has no such figure."""


def cell(run: Run, part: str, row: str, column: str) -> Any:
    """One figure of a benchmark; the first column names the row."""
    for found in run["parts"].get(part, {}).get("rows", ()):
        if str(next(iter(found.values()))) == row and found.get(column) is not None:
            return found[column]
    raise NotMeasured(f"{part}: {row}: {column}")


def column(run: Run, part: str, name: str) -> list[Any]:
    """One figure of every row."""
    found = [row[name] for row in run["parts"].get(part, {}).get("rows", ()) if row.get(name) is not None]
    if not found:
        raise NotMeasured(f"{part}: {name}")
    return found


def drains(run: Run, on: str, wanted: Callable[[str], bool]) -> dict[str, float]:
    """The best of one, two and four workers, of each system that ran."""
    found = {}
    for system in run["peers"]:
        rates = [each["median"] for name, each in system["figures"].items() if name.startswith("drain")]
        if system["on"] == on and wanted(system["name"]) and rates:
            found[system["label"]] = max(rates)
    if not found:
        raise NotMeasured(f"no system on {on}")
    return found


def is_peer(name: str) -> bool:
    return name not in ("rota", RAW)


def ratios(run: Run) -> list[tuple[Run, float | None]]:
    """Each system, and how many times its best rate rota's is: on the same kind of store; on SQLite beside Redis."""
    ours: dict[str, float] = {}
    for on in (SQLITE, POSTGRES):
        with suppress(NotMeasured):
            (ours[on],) = drains(run, on, lambda name: name == "rota").values()
    found: list[tuple[Run, float | None]] = []
    for system in run["peers"]:
        rates = [each["median"] for name, each in system["figures"].items() if name.startswith("drain")]
        rota = ours.get(SQLITE if system["on"] == REDIS else system["on"])
        found.append((system, rota / max(rates) if rota and rates else None))
    return found


def _against(run: Run, ours: str, on: str, wanted: Callable[[str], bool] = is_peer) -> tuple[float, str]:
    (rota,) = drains(run, ours, lambda name: name == "rota").values()
    peers = drains(run, on, wanted)
    best = max(peers, key=lambda label: peers[label])
    return rota / peers[best], f"{text(rota / peers[best])} × {best} ({text(rota)} and {text(peers[best])} jobs/s)"


def _at_least(ratio: float, wanted: float, shown: str | None = None) -> tuple[str, bool]:
    return shown or text(ratio), ratio >= wanted


def _below(value: float, wanted: float, unit: str) -> tuple[str, bool]:
    return f"{text(value)} {unit}", value < wanted


def _drain(ours: str, on: str, wanted: float, which: Callable[[str], bool] = is_peer) -> Judge:
    def judge(run: Run) -> tuple[str, bool]:
        ratio, shown = _against(run, ours, on, which)
        return _at_least(ratio, wanted, shown)

    return judge


def _ratio(part: str, row: str, wanted: float) -> Judge:
    return lambda run: _at_least(cell(run, part, row, "ratio"), wanted)


def _pickup_sqlite(run: Run) -> tuple[str, bool]:
    ratio = cell(run, "crew sqlite", "pickup p50 ms", "ratio")
    ours, raw = (cell(run, "crew sqlite", "pickup p50 ms", name) for name in ("rota", "bare"))
    return f"{text(ratio)} × ({text(ours)} and {text(raw)} ms)", ratio <= 2


def _pickup_postgres(run: Run) -> tuple[str, bool]:
    found = {each["name"]: each["figures"].get("pickup") for each in run["peers"] if each["on"] == POSTGRES}
    ours, theirs = found.get("rota"), found.get("pgqueuer")
    if not ours or not theirs:
        raise NotMeasured("pickup on PostgreSQL")
    return f"{text(ours['median'])} ms, pgqueuer {text(theirs['median'])} ms", ours["median"] < theirs["median"]


def _recovery(run: Run) -> tuple[str, bool]:
    rows = _struck(run)
    worst = max(row["p99 ms"] for row in rows)
    return _below(worst, 250, "ms")


def _struck(run: Run) -> list[dict[str, Any]]:
    """The rows of jobs whose worker was killed, busy crew and idle one."""
    rows = [row for row in run["parts"].get("recovery", {}).get("rows", ()) if row["target p99"] is not None]
    if not rows:
        raise NotMeasured("recovery")
    return rows


def _settled_once(run: Run) -> tuple[str, bool]:
    rows = _struck(run)
    kills, once = min(row["measured"] for row in rows), all(row["settled once"] for row in rows)
    if kills < KILLS:
        raise NotMeasured(f"recovery: {kills} kills of {KILLS}")
    worst = max(row["p99 ms"] for row in rows)
    told = "every job settled once" if once else "not every job settled once"
    return f"{text(worst)} ms after {kills} kills, {told}", worst < 250 and once


def _depth(part: str, size: int) -> Judge:
    """By a queue of this size: what a smaller one costs says nothing."""

    def judge(run: Run) -> tuple[str, bool]:
        worst = max(cell(run, part, f"{size:,}", name) for name in ("ratio", "ratio "))
        return f"{text(worst)} ×", worst <= 1.5

    return judge


def _dead(run: Run) -> tuple[str, bool]:
    """By what a crew claims; by as many rows, and no fewer."""
    ratio, p99 = (cell(run, "dead", f"{DEAD:,}", name) for name in ("ratio", "exchange p99 ms"))
    return f"{text(ratio)} × ({text(p99)} ms)", ratio <= DEAD_AT_MOST


def _at_rate(part: str, wanted: float) -> Judge:
    def judge(run: Run) -> tuple[str, bool]:
        rate = cell(run, part, BEST, "rota")
        return f"{text(rate)} jobs/s", rate >= wanted

    return judge


def _requests(run: Run) -> tuple[str, bool]:
    return _below(cell(run, "http", "1000 requests/s beside them", "p99 ms"), 50, "ms")


def _change_reaches(run: Run) -> tuple[str, bool]:
    events, reached, p99 = (cell(run, "fanout", "1", name) for name in ("events", "reached", "p99 ms"))
    return f"p99 {text(p99)} ms, {reached:,} of {events:,} arrived", reached == events and p99 < 100


def _outage(row: str, wanted: float) -> Judge:
    def judge(run: Run) -> tuple[str, bool]:
        rows = [found for found in run["parts"].get("outage", {}).get("rows", ()) if found["what"] == row]
        if not rows:
            raise NotMeasured(f"outage: {row}")
        worst = min(found["ratio"] for found in rows)
        return f"{worst:.0%}", worst >= wanted

    return judge


def _memory(run: Run) -> tuple[str, bool]:
    found = [cell(run, "crew sqlite", "orchestrator, resident MB", "rota"), cell(run, "http", "idle", "MB")]
    found.append(cell(run, "crew sqlite", "worker, resident MB", "rota"))
    return " / ".join(f"{text(each)}" for each in found) + " MB", all(
        a < b for a, b in zip(found, (30, 45, 30), strict=True)
    )


def _cli(part: str) -> Judge:
    def judge(run: Run) -> tuple[str, bool]:
        ratio, p95 = max(column(run, part, "ratio")), max(column(run, part, "p95 ms"))
        return f"slowest verb {text(ratio)} ×, p95 {text(p95)} ms", ratio <= 3 and p95 < 100

    return judge


def _measured(part: str, row: str, name: str, most: float, unit: str) -> Judge:
    return lambda run: _below(cell(run, part, row, name), most, unit)


def _beats(part: str) -> Judge:
    def judge(run: Run) -> tuple[str, bool]:
        missed, dead, ratio = (
            cell(run, part, row, "measured") for row in ("missed beats", "workers taken for dead", "ratio")
        )
        return (
            f"{missed:g} missed, {dead:g} taken for dead, claims {text(ratio)} ×",
            not missed and not dead and ratio <= 1.5,
        )

    return judge


def _three_against_one(run: Run) -> tuple[str, bool]:
    return _at_least(cell(run, "crew sqlite", "3 workers against 1, 100 ms jobs", "rota"), 2.9)


def _writers(run: Run) -> tuple[str, bool]:
    longest, late, errors = (
        cell(run, "writers", row, "measured") for row in ("longest ms", "share above 50 ms", "errors")
    )
    return (
        f"longest {text(longest)} ms, {late:.2%} above 50 ms, {errors:g} errors",
        longest <= 500 and late < 0.01 and not errors,
    )


def _tuned_or_not(name: str) -> bool:
    return is_peer(name) and name != TUNED


BEST = "no-op jobs/s, the best of these"
IDLE = "idle crew of 10, % of a core"
AGAIN = "runs again after, s"
PICKUP = "pickup p50 ms"
CRASHED, CUT = "after a crash of the server", "connections ended every 200 ms"
FULL = "work off a full queue"
JUDGED: tuple[tuple[str, str, Judge], ...] = (
    (f"{FULL}, SQLite, against the best SQLite peer", "≥ 12 ×", _drain(SQLITE, SQLITE, 12)),
    (f"{FULL}, SQLite, against the best Redis peer", "≥ 5 ×", _drain(SQLITE, REDIS, 5)),
    (f"{FULL}, SQLite, of the trial of the whole path", "≥ 0.5", _ratio("crew sqlite", BEST, 0.5)),
    (f"{FULL}, PostgreSQL, against the best tuned peer", "≥ 1.5 ×", _drain(POSTGRES, POSTGRES, 1.5)),
    (
        f"{FULL}, PostgreSQL, against the best peer at its defaults",
        "≥ 3 ×",
        _drain(POSTGRES, POSTGRES, 3, _tuned_or_not),
    ),
    (f"{FULL}, PostgreSQL, of the raw figure at batch 100", "≥ 0.4", _ratio("crew postgres", BEST, 0.4)),
    ("enqueue one by one, SQLite, of a raw insert", "≥ 0.8", _ratio("rows sqlite", "enqueue 1", 0.8)),
    ("enqueue in bulk, SQLite, of a raw insert", "≥ 0.5", _ratio("rows sqlite", "enqueue 1,000", 0.5)),
    ("pickup p50, SQLite, against the raw path", "≤ 2 ×", _pickup_sqlite),
    ("pickup p50, PostgreSQL", "below pgqueuer", _pickup_postgres),
    ("a killed worker's job runs again, p99", "< 250 ms", _recovery),
    ("cost of a claim, SQLite, 5,000,000 waiting against 1,000", "≤ 1.5 ×", _depth("depth", DEPTH["sqlite"])),
    (
        "cost of a claim, PostgreSQL, 1,000,000 waiting against 1,000",
        "≤ 1.5 ×",
        _depth("depth postgres", DEPTH["postgres"]),
    ),
    ("p99 of a crew's claim, PostgreSQL, 1,000,000 dead rows behind an old snapshot against none", "≤ 5 ×", _dead),
    ("idle crew of 10 workers, of a core", "< 0.5 %", _measured("crew sqlite", IDLE, "rota", 0.5, "%")),
    ("orchestrator / HTTP child / worker, resident", "< 30 / 45 / 30 MB", _memory),
    ("a hot verb of the command line, against bare Python", "≤ 3 ×, p95 < 100 ms", _cli("cli")),
    ("a hot verb over HTTP, on SQLite", "≤ 3 ×, p95 < 100 ms", _cli("cli http")),
    ("a hot verb over HTTP, on PostgreSQL", "≤ 3 ×, p95 < 100 ms", _cli("cli http postgres")),
    ("3 workers against 1 on jobs of 100 ms", "≥ 2.9 ×", _three_against_one),
    ("stop of an idle crew", "< 1 s", _measured("crew sqlite", "stop of an idle crew, s", "rota", 1, "s")),
    ("stop of a crew busy with 1 s jobs", "< 3 s", _measured("crew sqlite", "stop amid 1 s jobs, s", "rota", 3, "s")),
    ("job of a dead beating worker, a beat every 30 s", "< 62 s", _measured("unseen", "30", AGAIN, 62, "s")),
    ("job of a dead beating worker, a beat every 5 s", "< 12 s", _measured("unseen", "5", AGAIN, 12, "s")),
    ("1,000 registered workers beat on one SQLite file", "none missed, claims ≤ 1.5 ×", _beats("beats sqlite")),
    ("10,000 registered workers beat on PostgreSQL", "none missed, claims ≤ 1.5 ×", _beats("beats postgres")),
    ("waits for the write lock, 16 processes", "≤ 500 ms, < 1 % above 50 ms, no error", _writers),
    ("throughput from 2 s after a crash of the server, of that before", "≥ 95 %", _outage(CRASHED, 0.95)),
    ("throughput while connections are ended every 200 ms, of that before", "≥ 90 %", _outage(CUT, 0.9)),
    ("on a quiet machine: no-op jobs of a crew, SQLite", "≥ 20,000 jobs/s", _at_rate("crew sqlite", 20_000)),
    ("on a quiet machine: no-op jobs of a crew, PostgreSQL", "≥ 10,000 jobs/s", _at_rate("crew postgres", 10_000)),
    ("on a quiet machine: pickup p50, SQLite", "< 3 ms", _measured("crew sqlite", PICKUP, "rota", 3, "ms")),
    ("on a quiet machine: pickup p50, PostgreSQL", "< 6 ms", _measured("crew postgres", PICKUP, "rota", 6, "ms")),
    ("on a quiet machine: a job of 200 killed workers runs again, p99", "< 250 ms, each settled once", _settled_once),
    ("on a quiet machine: 1,000 requests/s beside 500 readers, p99", "< 50 ms", _requests),
    ("on a quiet machine: a change reaches who follows it, p99", "< 100 ms", _change_reaches),
)


def targets(run: Run) -> list[Target]:
    """Every target, judged."""
    found = []
    for what, wanted, judge in JUDGED:
        try:
            measured, met = judge(run)
            found.append(Target(what, wanted, measured, met))
        except NotMeasured:
            found.append(Target(what, wanted, "not measured", None))
    return found
