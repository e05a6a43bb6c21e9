"""The targets, each judged from what one whole run measured. What was not measured is neither met nor missed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.peers.compare import RAW
from benchmarks.peers.table import POSTGRES, REDIS, SQLITE
from rota.bench.figures import text
from rota.core.record import Record

Run = dict[str, Any]
Judge = Callable[[Run], tuple[str, bool]]
TUNED = "pgqueuer, batch 100"


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
    rows = [row for row in run["parts"].get("recovery", {}).get("rows", ()) if row["target p99"] is not None]
    if not rows:
        raise NotMeasured("recovery")
    worst = max(row["p99 ms"] for row in rows)
    return _below(worst, 250, "ms")


def _depth(run: Run) -> tuple[str, bool]:
    rows = run["parts"].get("depth", {}).get("rows", ())
    if not rows:
        raise NotMeasured("depth")
    worst = max(rows[-1]["ratio"], rows[-1]["ratio "])
    return f"{text(worst)} × at {rows[-1]['ready']} waiting", worst <= 1.5


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
JUDGED: tuple[tuple[str, str, Judge], ...] = (
    ("work off a full queue, SQLite, against the best SQLite peer", "≥ 12 ×", _drain(SQLITE, SQLITE, 12)),
    ("the same, against the best Redis peer", "≥ 5 ×", _drain(SQLITE, REDIS, 5)),
    (
        "the same, of the trial of the whole path",
        "≥ 0.5",
        _ratio("crew sqlite", BEST, 0.5),
    ),
    ("work off a full queue, PostgreSQL, against the best tuned peer", "≥ 1.5 ×", _drain(POSTGRES, POSTGRES, 1.5)),
    ("the same, against the best peer at its defaults", "≥ 3 ×", _drain(POSTGRES, POSTGRES, 3, _tuned_or_not)),
    (
        "the same, of the raw figure at batch 100",
        "≥ 0.4",
        _ratio("crew postgres", BEST, 0.4),
    ),
    ("enqueue one by one, SQLite, of a raw insert", "≥ 0.8", _ratio("rows sqlite", "enqueue 1", 0.8)),
    ("enqueue in bulk, SQLite, of a raw insert", "≥ 0.5", _ratio("rows sqlite", "enqueue 1,000", 0.5)),
    ("pickup p50, SQLite, against the raw path", "≤ 2 ×", _pickup_sqlite),
    ("pickup p50, PostgreSQL", "below pgqueuer", _pickup_postgres),
    ("a killed worker's job runs again, p99", "< 250 ms", _recovery),
    ("cost of a claim, the largest queue against 1,000 waiting", "≤ 1.5 ×", _depth),
    (
        "idle crew of 10 workers, of a core",
        "< 0.5 %",
        _measured("crew sqlite", IDLE, "rota", 0.5, "%"),
    ),
    ("orchestrator / HTTP child / worker, resident", "< 30 / 45 / 30 MB", _memory),
    ("a hot verb of the command line, against bare Python", "≤ 3 ×, p95 < 100 ms", _cli("cli")),
    ("the same over HTTP", "≤ 3 ×, p95 < 100 ms", _cli("cli http")),
    ("3 workers against 1 on jobs of 100 ms", "≥ 2.9 ×", _three_against_one),
    ("stop of an idle crew", "< 1 s", _measured("crew sqlite", "stop of an idle crew, s", "rota", 1, "s")),
    ("stop of a crew busy with 1 s jobs", "< 3 s", _measured("crew sqlite", "stop amid 1 s jobs, s", "rota", 3, "s")),
    (
        "job of a dead beating worker, a beat every 30 s",
        "< 62 s",
        _measured("unseen", "30", AGAIN, 62, "s"),
    ),
    ("the same, a beat every 5 s", "< 12 s", _measured("unseen", "5", AGAIN, 12, "s")),
    ("1,000 registered workers beat on one SQLite file", "none missed, claims ≤ 1.5 ×", _beats("beats sqlite")),
    ("10,000 registered workers beat on PostgreSQL", "none missed, claims ≤ 1.5 ×", _beats("beats postgres")),
    ("waits for the write lock, 16 processes", "≤ 500 ms, < 1 % above 50 ms, no error", _writers),
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
