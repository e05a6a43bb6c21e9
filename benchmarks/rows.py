"""How many jobs a second one process moves through the store, against the same rows written by hand.

    ./dev bench rows             on SQLite; `python -m benchmarks.rows --store postgres` on PostgreSQL

Exchange: settle a batch and claim the next in one transaction, with runs, events and counters. Enqueue: one job per
transaction, and a thousand. Every write is synced to the disk before it counts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks import _report, _stores
from benchmarks._raw import RawQueue
from benchmarks._raw_postgres import RawPostgres
from rota.core.claim import Done
from rota.settings import Settings
from rota.store.adding import NewJob
from rota.store.exchange import Idle, Report
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Outcome
    from rota.store.store import Store

JOBS = {1: 600, 10: 5_000, 50: 20_000, 100: 20_000, 200: 20_000}
BATCHES = {"sqlite": (1, 10, 50, 200), "postgres": (1, 10, 100, 200)}
BULK = 1_000
PAYLOAD = {"path": "library/a.wav", "n": 1}
PAYLOAD_TEXT = '{"path":"library/a.wav","n":1}'
TARGETS = {"enqueue 1": 0.8, f"enqueue {BULK:,}": 0.5}
WANTED_PER_SECOND = {"sqlite": ("exchange 50", 20_000), "postgres": ("exchange 100", 10_000)}


def drain_rota(url: str, batch: int) -> float:
    """Jobs a second through `exchange`."""
    with _new_store(url) as store:
        store.jobs.add_many(_new_job(n) for n in range(JOBS[batch]))
        id = store.orchestrators.join()
        worker = store.orchestrators.hire(id, "worker:q:0", "q")
        idle, number, done = [Idle(worker, "q", batch)], 0, 0
        outcomes: list[tuple[int, int, Outcome]] = []
        started = time.perf_counter()
        while done < JOBS[batch]:
            answer = store.orchestrators.exchange(id, number, Report(outcomes, idle))
            assert not answer.refused
            number, done = answer.number, done + len(outcomes)
            outcomes = [(claim.job_id, claim.token, Done("null")) for claim in answer.claims]
        return done / (time.perf_counter() - started)


def drain_raw(url: str, batch: int) -> float:
    queue = _raw(url)
    queue.insert([PAYLOAD_TEXT] * JOBS[batch])
    started = time.perf_counter()
    held, done = queue.exchange([], batch), 0
    while held:
        done, held = done + len(held), queue.exchange(held, batch)
    rate = done / (time.perf_counter() - started)
    queue.close()
    return rate


def enqueue_rota(url: str, batch: int) -> float:
    """Jobs a second through `add` or `add_many`."""
    times = _times(batch)
    with _new_store(url) as store:
        store.jobs.add(_new_job(0))
        started = time.perf_counter()
        for _ in range(times):
            if batch == 1:
                store.jobs.add(_new_job(1))
            else:
                store.jobs.add_many([_new_job(n) for n in range(batch)])
        return times * batch / (time.perf_counter() - started)


def enqueue_raw(url: str, batch: int) -> float:
    times, queue = _times(batch), _raw(url)
    queue.insert([PAYLOAD_TEXT])
    started = time.perf_counter()
    for _ in range(times):
        queue.insert([PAYLOAD_TEXT] * batch)
    rate = times * batch / (time.perf_counter() - started)
    queue.close()
    return rate


def _times(batch: int) -> int:
    return 500 if batch == 1 else 20


def _new_job(n: int) -> NewJob:
    return NewJob(f"job {n}", queue="q", kind="noop", payload=PAYLOAD)


def _new_store(url: str) -> Store:
    return open_store(url, Settings(), make=True)


def _raw(url: str) -> RawQueue | RawPostgres:
    return RawPostgres(url) if "://" in url else RawQueue(url)


def measure(rounds: int, kind: str) -> dict[str, tuple[list[float], list[float]]]:
    """For each measurement rota's and the raw figures, one of each per round, side by side in time."""
    plan: list[tuple[str, int, Callable[[str, int], float], Callable[[str, int], float]]] = [
        *((f"exchange {batch}", batch, drain_rota, drain_raw) for batch in BATCHES[kind]),
        *((f"enqueue {batch:,}", batch, enqueue_rota, enqueue_raw) for batch in (1, BULK)),
    ]
    figures: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name, *_ in plan}
    for _ in range(rounds):
        for name, batch, *pair in plan:
            for run, samples in zip(pair, figures[name], strict=True):
                with _stores.stores(kind) as fresh:
                    samples.append(run(fresh(), batch))
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
