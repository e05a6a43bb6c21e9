"""How many jobs a second one process moves through the store, against the same rows written by hand.

    ./dev bench rows             on SQLite; `./dev bench rows --store postgres` on PostgreSQL

Exchange: settle a batch and claim the next in one transaction, with runs, events and counters. Enqueue: one job per
transaction, and a thousand. Every write is synced to the disk before it counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import _report, _stores
from rota.lab.bench.store_rates import drain_raw, drain_rota, enqueue_raw, enqueue_rota

if TYPE_CHECKING:
    from collections.abc import Callable

    Measured = Callable[[str, int, int], float]

JOBS = {1: 600, 10: 5_000, 50: 20_000, 100: 20_000, 200: 20_000}
BATCHES = {"sqlite": (1, 10, 50, 200), "postgres": (1, 10, 100, 200)}
BULK = 1_000
ONE_BY_ONE, BULKS = 500, 20
TARGETS = {"enqueue 1": 0.8, f"enqueue {BULK:,}": 0.5}
WANTED_PER_SECOND = {"sqlite": ("exchange 50", 20_000), "postgres": ("exchange 100", 10_000)}


def measure(rounds: int, kind: str) -> dict[str, tuple[list[float], list[float]]]:
    """For each measurement rota's and the raw figures, one of each per round, side by side in time."""
    plan: list[tuple[str, int, int, Measured, Measured]] = [
        *((f"exchange {batch}", batch, JOBS[batch], drain_rota, drain_raw) for batch in BATCHES[kind]),
        ("enqueue 1", 1, ONE_BY_ONE, enqueue_rota, enqueue_raw),
        (f"enqueue {BULK:,}", BULK, BULKS, enqueue_rota, enqueue_raw),
    ]
    figures: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name, *_ in plan}
    for _ in range(rounds):
        for name, batch, size, *pair in plan:
            for run, samples in zip(pair, figures[name], strict=True):
                with _stores.stores(kind) as fresh:
                    samples.append(run(fresh(), batch, size))
    return figures


def main() -> None:
    parser = _report.arguments("Rows a second through the store, against the same rows written by hand.")
    _stores.add_option(parser)
    options = parser.parse_args()
    wanted, per_second = WANTED_PER_SECOND[options.store]
    targets = TARGETS if options.store == "sqlite" else {}
    table: list[dict[str, _report.Cell]] = []
    for name, (ours, raw) in measure(options.rounds or 5, options.store).items():
        rate, ratio = _report.median(ours), _report.median([a / b for a, b in zip(ours, raw, strict=True)])
        met = rate >= per_second if name == wanted else ratio >= targets[name] if name in targets else None
        table.append(
            {
                "jobs/s": name,
                "rota": rate,
                "spread": _report.spread(ours),
                "raw": _report.median(raw),
                "ratio": ratio,
                "target": f"{per_second:,}/s" if name == wanted else targets.get(name),
                "met": met,
            }
        )
    title = f"rows on {options.store}: medians of interleaved rounds, every commit on the disk"
    _report.show(title, table, options.json)


if __name__ == "__main__":
    main()
