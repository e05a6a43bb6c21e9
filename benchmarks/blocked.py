"""What a claim costs while 100,000 better jobs of its queue wait for a worker that knows their kind, and without them.

    ./dev bench blocked          `--store postgres` measures PostgreSQL; `--jobs 20000` for fewer

Each claim is measured in turn with one on a store beside it that has no such jobs, so that a slow minute of the machine
hits both. On PostgreSQL the dead entries at the head of the index are walked past until autovacuum has been there, in a
minute or so, as after as many jobs that ended: that is shown, and what comes then is judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import psycopg

from benchmarks import _report, _stores
from benchmarks.depth import Claimer, measure
from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.open import open_store
from rota.store.postgres.connection import address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks._stores import Fresh

JOBS, READY, BEST, AT_MOST = 100_000, 1000, 9, 1.2
BLOCK = "UPDATE job SET status = 'blocked', blocked_on = 'kind', unknown_until = 8000000000000000 WHERE priority = 9"
COUNT = """INSERT INTO tally (queue, status, n) VALUES ('q', 'ready', -{0}), ('q', 'blocked', {0})
ON CONFLICT (queue, status, shard) DO UPDATE SET n = tally.n + excluded.n"""


def block(url: str, count: int) -> None:
    """Add so many jobs that would be claimed before all others, and set them aside."""
    with open_store(url, Settings()) as store:
        for start in range(0, count, 1000):
            size = min(1000, count - start)
            store.jobs.add_many([NewJob("nobody knows it", queue="q", kind="new", priority=BEST) for _ in range(size)])
        say(url, BLOCK)
        say(url, COUNT.format(count))
        assert store.queues.counts()["q"]["blocked"] == count


def say(url: str, text: str) -> None:
    """Plain SQL on a connection of its own."""
    if "://" not in url:
        connection = apsw.Connection(url)
        connection.set_busy_timeout(30_000)
        connection.execute(text)
        connection.close()
        return
    where = address(url)
    with psycopg.connect(where.conninfo, autocommit=True) as link:
        link.execute(f"SET search_path TO {where.schema}".encode())
        link.execute(text.encode())


def run(jobs: int, rounds: int, store: str, fresh: Fresh) -> list[dict[str, _report.Cell]]:
    without, behind = Claimer(fresh()), Claimer(fresh())
    block(behind.url, jobs)
    for claimer in (without, behind):
        claimer.put_back(READY)
        if store == "postgres":
            say(claimer.url, "ANALYZE")
    table = [row("just set aside", jobs, measure(without, behind, rounds))]
    if store == "postgres":
        for claimer in (without, behind):
            say(claimer.url, "VACUUM ANALYZE")
        table.append(row("vacuumed", jobs, measure(without, behind, rounds)))
    without.close()
    behind.close()
    return table


def row(when: str, jobs: int, figures: dict[str, tuple[list[float], list[float]]]) -> dict[str, _report.Cell]:
    cells: dict[str, _report.Cell] = {"when": when, "blocked": jobs}
    for name, (beside, samples) in figures.items():
        here, there = _report.median(samples), _report.median(beside)
        more = " " * (name != "exchange")
        cells |= {f"{name} ms": here * 1e3, f"{name} without": there * 1e3, f"ratio{more}": here / there}
        cells |= {f"p99 ratio{more}": _report.percentile(samples, 0.99) / _report.percentile(beside, 0.99)}
    return cells


def main() -> None:
    parser = _report.arguments("What a claim costs beside jobs that wait for a worker that knows their kind.")
    _stores.add_option(parser)
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many jobs are set aside")
    options = parser.parse_args()
    with _stores.stores(options.store) as fresh:
        table = run(options.jobs, options.rounds or 400, options.store, fresh)
    _report.show(f"blocked on {options.store}: one claim, medians", table, options.json)
    if not options.json:
        print(f"  target: {verdict(table)}")


def verdict(table: Sequence[Mapping[str, _report.Cell]]) -> str:
    """Whether it is met: by as many jobs as it has, and no fewer."""
    wanted = f"with {JOBS:,} blocked at most {AT_MOST} × what it costs without"
    if table[0]["blocked"] != JOBS:
        return f"{wanted}: not measured, there were {table[0]['blocked']:,}"
    met = all(float(str(table[-1][ratio])) <= AT_MOST for ratio in ("ratio", "ratio "))
    return f"{wanted}: {'met' if met else 'NOT met'}"


if __name__ == "__main__":
    main()
