"""What a claim costs while an orchestrator forgets a million finished jobs, against one while it has nothing to forget.

    ./dev bench pruning          `--store postgres` measures PostgreSQL; `--jobs 100k` for fewer

A crew without workers stands beside the store and prunes as it always does, in small steps. Claims are made by hand in
this process, and settled: first while the crew keeps everything, then while it forgets all that is over.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks import _report, _stores
from benchmarks._fill import FINISHED, fill
from rota.core.claim import Done
from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.store import Store

ROTA = os.path.join(os.path.dirname(sys.executable), "rota")
JOBS, SECONDS, LATER_MS = 1_000_000, 20.0, 50.0
READY, EVERY = 20_000, 0.002


@contextmanager
def crew(url: str, folder: str, **settings: str) -> Iterator[None]:
    """An orchestrator that has no workers to look after."""
    environment = {**os.environ, "ROTA_DB": url, "XDG_RUNTIME_DIR": folder, **settings}
    words = [ROTA, "orchestrator", "start", "--no-http"]
    with subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def claims(store: Store, seconds: float) -> list[float]:
    """Milliseconds of each claim, made again and again for so long."""
    worker, took = store.workers.register("by hand").id, list[float]()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        claim = store.claims.take(worker, "q")
        took.append((time.perf_counter() - began) * 1e3)
        store.claims.settle(claim, Done("null"))
        time.sleep(EVERY)
    store.workers.deregister(worker)
    return took


def run(url: str, jobs: int, seconds: float) -> list[dict[str, _report.Cell]]:
    table = []
    with open_store(url, Settings(), make=True) as store, tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        store.jobs.add_many([NewJob("ready", queue="q") for _ in range(READY)])
        fill(url, 0, jobs, lambda text: print(f"  filling: {text}", file=sys.stderr), FINISHED)
        for what, keep in (("keeps everything", "3650d"), ("forgets", "1s")):
            with crew(url, folder, ROTA_KEEP_FOR=keep, ROTA_KEEP_JOBS="1000000000"):
                wait_for_crew(store)
                before, began = over(store), time.monotonic()
                while keep == "1s" and over(store) == before:
                    time.sleep(0.05)
                before, began = over(store), time.monotonic()
                took = claims(store, seconds)
                gone = before + len(took) - over(store)
                table.append(row(what, took, gone, gone / (time.monotonic() - began)))
    return table


def wait_for_crew(store: Store) -> None:
    while not store.orchestrators.live():
        time.sleep(0.05)


def over(store: Store) -> int:
    return store.queues.counts()["q"]["done"]


def row(what: str, took: list[float], gone: int, rate: float) -> dict[str, _report.Cell]:
    return {
        "the crew": what,
        "claims": len(took),
        "p50 ms": _report.median(took),
        "p99 ms": _report.percentile(took, 0.99),
        "max ms": max(took),
        "above 50 ms": sum(each > LATER_MS for each in took),
        "forgotten": gone,
        "per second": round(rate),
    }


def main() -> None:
    parser = _report.arguments("What a claim costs while old jobs are forgotten.")
    _stores.add_option(parser)
    parser.add_argument("--jobs", default="1M", help="how many jobs are over: 100k or 1M")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for how long claims are measured, each time")
    options = parser.parse_args()
    jobs = int(options.jobs.lower().replace("k", "000").replace("m", "000000"))
    with _stores.stores(options.store) as fresh:
        table = run(fresh(), jobs, options.seconds)
    _report.show(f"pruning on {options.store}: {jobs:,} finished jobs, one claim", table, options.json)
    if not options.json:
        later = float(str(table[1]["p99 ms"])) - float(str(table[0]["p99 ms"]))
        print(f"  target: the p99 at most {LATER_MS:g} ms later: {'met' if later <= LATER_MS else 'NOT met'}")


if __name__ == "__main__":
    main()
