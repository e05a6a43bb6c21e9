"""What a claim costs when a million jobs wait, against the same claim when a thousand do.

    ./dev bench depth            up to a million; `./dev bench depth --most 5M` goes on
                                 `--store postgres` measures PostgreSQL

One store grows; ready, scheduled, blocked, limited and finished jobs are always as many. At every size each claim is
measured in turn with one on a small store beside it, so that a slow minute of the machine hits both.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from benchmarks import _report, _stores
from benchmarks._fill import fill, prepare, size_of
from benchmarks._targets import DEPTH
from rota.core.claim import Done
from rota.settings import Settings
from rota.store.claims.exchange import Idle, Report
from rota.store.jobs.enqueue import NewJob
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks._stores import Fresh
    from rota.core.claim import Outcome

SIZES = (1_000, 100_000, 1_000_000, 5_000_000)
BATCH = 50
TARGET = 1.5


class Claimer:
    """Claims from one store and puts back as many ready jobs as it took, so that the depth stays."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = open_store(url, Settings(), make=True)
        if not self._store.queues.list():
            prepare(self._store)
        self._id = self._store.orchestrators.join()
        self._worker = self._store.orchestrators.register_worker(self._id, "worker:q:0", "q")
        self._by_hand = self._store.workers.register("by hand").id
        self._number = 0
        self._held: list[tuple[int, int, Outcome]] = []
        self.exchange()

    def exchange(self) -> float:
        """Seconds for one exchange of a full batch."""
        started = time.perf_counter()
        answer = self._store.orchestrators.exchange(
            self._id, self._number, Report(self._held, [Idle(self._worker, "q", BATCH)])
        )
        seconds = time.perf_counter() - started
        self._number = answer.number
        self._held = [(claim.job_id, claim.token, Done("null")) for claim in answer.claims]
        self.put_back(len(self._held))
        return seconds

    def take(self) -> float:
        """Seconds for one claim by hand of whatever is best."""
        started = time.perf_counter()
        claim = self._store.claims.take(self._by_hand, "q")
        seconds = time.perf_counter() - started
        self._store.claims.settle(claim, Done("null"))
        self.put_back(1)
        return seconds

    def renew(self) -> None:
        """Filling and measuring take a while: keep the lease."""
        self._store.orchestrators.renew(self._id)

    def put_back(self, count: int) -> None:
        """Add so many ready jobs."""
        self._store.jobs.add_many([NewJob("one more", queue="q", priority=n % 5) for n in range(count)])

    def close(self) -> None:
        """Leave: one that is only gone is looked after by whoever claims next, until its lease is over."""
        self._store.orchestrators.leave(self._id)
        self._store.close()


def measure(small: Claimer, large: Claimer, rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    figures: dict[str, tuple[list[float], list[float]]] = {"exchange": ([], []), "take": ([], [])}
    for number in range(rounds + rounds // 10):
        if number % 20 == 0:
            small.renew()
            large.renew()
        for name, (beside, samples) in figures.items():
            pair = (getattr(small, name)(), getattr(large, name)())
            if number >= rounds // 10:
                beside.append(pair[0])
                samples.append(pair[1])
    return figures


def row(size: int, url: str, figures: dict[str, tuple[list[float], list[float]]]) -> dict[str, _report.Cell]:
    cells: dict[str, _report.Cell] = {"ready": f"{size:,}", "MB": size_of(url) // 1_000_000}
    for name, (beside, samples) in figures.items():
        here, there = _report.median(samples), _report.median(beside)
        cells |= {
            f"{name} ms": here * 1e3,
            "spread" if name == "exchange" else "spread ": _report.spread(samples),
            f"{name} p95": _report.percentile(samples, 0.95) * 1e3,
            f"{name} at 1k": there * 1e3,
            "ratio" if name == "exchange" else "ratio ": here / there,
        }
    return cells


def run(sizes: Sequence[int], rounds: int, fresh: Fresh) -> list[dict[str, _report.Cell]]:
    small, grown = Claimer(fresh()), fresh()
    fill(small.url, 0, SIZES[0], lambda _: None)
    Claimer(grown).close()
    table, have = [], 0
    for size in sizes:
        fill(grown, have, size, lambda text: print(f"  filling: {text}", file=sys.stderr))
        have = size
        large = Claimer(grown)
        table.append(row(size, grown, measure(small, large, rounds)))
        large.close()
    small.close()
    return table


def main() -> None:
    parser = _report.arguments("What a claim costs as the queue grows.")
    _stores.add_option(parser)
    parser.add_argument("--most", default="1M", help="the largest number of ready jobs: 1k, 100k, 1M or 5M")
    options = parser.parse_args()
    most = int(options.most.lower().replace("k", "000").replace("m", "000000"))
    with _stores.stores(options.store) as fresh:
        table = run([size for size in SIZES if size <= most], options.rounds or 200, fresh)
    beside = "with as many scheduled, blocked, limited and finished beside the ready ones"
    _report.show(f"depth on {options.store}: one claim, {beside}", table, options.json)
    if not options.json:
        print(f"  target: {verdict(table, DEPTH[options.store])}")


def verdict(table: Sequence[Mapping[str, _report.Cell]], size: int) -> str:
    """Whether the target is met: by a queue of this size, and no smaller one."""
    wanted = f"with {size:,} waiting at most {TARGET} × what it costs with a thousand"
    if table[-1]["ready"] != f"{size:,}":
        return f"{wanted}: not measured, the most were {table[-1]['ready']}"
    met = all(float(str(table[-1][ratio])) <= TARGET for ratio in ("ratio", "ratio "))
    return f"{wanted}: {'met' if met else 'NOT met'}"


if __name__ == "__main__":
    main()
