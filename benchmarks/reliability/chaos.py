"""Storms over both databases, one seed after another, put together in one table.

./dev chaos                          a storm of a minute on each database, with seed 1
./dev chaos --minutes 30             long ones
./dev chaos --seeds 20               seeds 1 to 20, on each database; the first also without a fault, to compare
./dev chaos --seed 7                 this seed again
./dev chaos --json FILE              what they came to, to look at again with `--from FILE`
./dev chaos --seeds 20 --docs        write docs/reliability.md from it

The exit code is 1 when any storm found anything.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

from benchmarks import _report
from benchmarks.__main__ import ROOT, machine, save
from benchmarks.reliability import pooled
from rota.core.version import __version__

DATA = os.path.join(ROOT, "docs", "reliability.json")
JOBS_A_MINUTE = 2000
BOTH = ("sqlite", "postgres")


def blow(options: argparse.Namespace) -> dict[str, Any]:
    """Every storm that was asked for, as one document, saved after each."""
    run: dict[str, Any] = {"taken": datetime.now(UTC).strftime("%Y-%m-%d"), "machine": machine(), "rota": __version__}
    run["storms"] = []
    for place, seed in enumerate(options.seed or range(1, options.seeds + 1)):
        for store in options.store:
            run["storms"].append(storm(options, seed, store, place == 0))
            save(run, options.json)
    return run


def storm(options: argparse.Namespace, seed: int, store: str, is_first: bool) -> dict[str, Any]:
    """One `rota chaos`; what it told, or the error that it ended with. The first is compared with one of no faults."""
    jobs = options.jobs or max(1, round(JOBS_A_MINUTE * options.minutes))
    words = ["--seed", str(seed), "--minutes", f"{options.minutes:g}", "--jobs", str(jobs), "--over", options.over]
    words += ["--workers", str(options.workers)] if options.workers else []
    words += ["--kills", str(options.kills)] if options.kills is not None else []
    words += ["--store", store, *(["--compare"] if is_first else [])]
    tell(f"seed {seed} on {pooled.LABELS[store]}")
    command = [sys.executable, "-m", "rota", "chaos", *words, "--json"]
    began = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    asked = {"store": store, "over": options.over, "jobs": jobs, "minutes": options.minutes}
    try:
        told: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        last = (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]
        told = {"seed": seed, "options": asked, "error": last}
    for line in pooled.bad([told]):
        tell(line)
        tell((ran.stderr.strip().splitlines() or [""])[-1])
    return told | {"took": round(time.monotonic() - began, 1)}


def show(run: dict[str, Any]) -> None:
    """The figures, then what was found."""
    storms = run["storms"]
    labels = [pooled.LABELS[store] for store in pooled.stores(storms)]
    rows = [{"what": name.strip("*")} | dict(zip(labels, cells, strict=True)) for name, cells in pooled.counted(storms)]
    _report.show("storms", rows, False)
    for store in pooled.stores(storms):
        print()
        mended = pooled.mended(storms, store)
        title = f"{pooled.LABELS[store]}: ms from the fault, p50 / p99 / longest (of how many)"
        parts = pooled.PARTS.values()
        _report.show(title, [{"fault": kind} | dict(zip(parts, cells, strict=True)) for kind, cells in mended], False)
    found = pooled.bad(storms)
    print("\n" + ("\n".join(found) if found else "nothing was lost, committed twice, falsely killed or violated"))


def tell(text: str) -> None:
    print(f"chaos: {text}", file=sys.stderr, flush=True)


def read(paths: list[str]) -> dict[str, Any]:
    """Runs from before, put together."""
    runs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            runs.append(json.load(file))
    return {**runs[0], "storms": [storm for run in runs for storm in run["storms"]]}


def publish(name: str, what: Any) -> None:
    """Put this into what the page is written from, beside what else is there, and write the page."""
    known = {}
    if os.path.exists(DATA):
        with open(DATA, encoding="utf-8") as file:
            known = json.load(file)
    lines = ",\n".join(f"{json.dumps(each)}: {_by_line(part)}" for each, part in {**known, name: what}.items())
    with open(DATA, "w", encoding="utf-8") as file:
        file.write(f"{{\n{lines}\n}}\n")
    subprocess.run([sys.executable, os.path.join(ROOT, "docs", "generate.py")], check=True)


def _by_line(part: Any) -> str:
    """As JSON, with a line for each storm."""
    storms = part.get("storms")
    if storms is None:
        return json.dumps(part)
    lines = ",\n".join(map(json.dumps, storms))
    return json.dumps({**part, "storms": []}).replace('"storms": []', f'"storms": [\n{lines}\n]')


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev chaos", description="Storms over both databases, put together.")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long each storm lasts")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 1 to N")
    parser.add_argument("--seed", type=int, action="append", help="this seed; may be repeated")
    parser.add_argument("--store", choices=BOTH, action="append", help="only this database")
    parser.add_argument("--jobs", type=int, help=f"in each storm; {JOBS_A_MINUTE} a minute without it")
    parser.add_argument("--workers", type=int, help="as for rota chaos")
    parser.add_argument("--kills", type=int, help="as for rota chaos")
    parser.add_argument("--over", choices=("database", "http"), default="database", help="as for rota chaos")
    parser.add_argument("--json", metavar="FILE", help="write what they came to there")
    parser.add_argument("--from", metavar="FILE", dest="given", action="append", help="blow none: read these files")
    parser.add_argument("--docs", action="store_true", help="write docs/reliability.md")
    return parser


def main() -> int:
    parser = arguments()
    options = parser.parse_args()
    if not 0 < options.minutes <= 24 * 60:
        parser.error("--minutes must be more than 0 and at most 1440, such as 0.5")
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    options.store = options.store or BOTH
    run = read(options.given) if options.given else blow(options)
    save(run, options.json)
    show(run)
    if options.docs:
        publish("chaos", run)
    return 1 if pooled.bad(run["storms"]) else 0


if __name__ == "__main__":
    sys.exit(main())
