"""What a claim costs on PostgreSQL while an old snapshot keeps a million rows of jobs that ended, against one without.

    ./dev bench dead             a million rows; `--rows 100000` for fewer

Each claim is measured in turn with one on a store beside it that has no such rows, so that a slow minute of the machine
hits both. What an orchestrator claims is judged: it walks past the dead seldom. A claim by hand always does, and comes
when all of those are over: between them it would take the time after which the orchestrator looks again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from benchmarks import _report, _stores
from benchmarks._targets import DEAD, DEAD_AT_MOST
from benchmarks.depth import Claimer
from rota.store.postgres.connection import address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks._stores import Fresh

WAITING = 1000
END = """
INSERT INTO job (id, queue, kind, title, priority, status, due_wall, max_attempts, created_at)
SELECT nextval('number_job'), 'q', 'noop', 'ended', 4, 'ready', 0, 3, 1 FROM generate_series(1, %s)
"""


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    """A reader that was there before, such as a backup: what ends meanwhile cannot be cleared away."""
    with psycopg.connect(address(url).conninfo) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM pg_class").fetchall()
        yield
        reader.rollback()


def end(url: str, rows: int) -> None:
    """So many jobs that were ready and are done, as the best there were."""
    place = address(url)
    with psycopg.connect(place.conninfo) as connection:
        connection.execute(f"SET search_path TO {place.schema}".encode())
        connection.execute(END, [rows])
        connection.commit()
        connection.execute("UPDATE job SET status = 'done', finished_at = 1 WHERE title = 'ended'")
        connection.commit()
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE job")


def measure(verb: str, without: Claimer, behind: Claimer, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of each, one store after the other; the first tenth is for warming up."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + rounds // 10):
        for claimer, samples in zip((without, behind), found, strict=True):
            if number % 20 == 0:
                claimer.renew()
            seconds = getattr(claimer, verb)()
            if number >= rounds // 10:
                samples.append(seconds)
    return found


def run(rows: int, rounds: int, fresh: Fresh) -> dict[str, _report.Cell]:
    without, behind = Claimer(fresh()), Claimer(fresh())
    with snapshot(behind.url):
        end(behind.url, rows)
        for claimer in (without, behind):
            claimer.put_back(WAITING)
        figures = {"exchange": measure("exchange", without, behind, rounds)}
        figures["take"] = measure("take", without, behind, rounds // 10)
    without.close()
    behind.close()
    cells: dict[str, _report.Cell] = {"dead rows": f"{rows:,}"}
    for name, (beside, samples) in figures.items():
        here, there = (_report.percentile(each, 0.99) for each in (samples, beside))
        cells |= {
            f"{name} p50 ms": _report.median(samples) * 1e3,
            f"{name} p99 ms": here * 1e3,
            f"{name} p50 without": _report.median(beside) * 1e3,
            f"{name} p99 without": there * 1e3,
            "ratio" if name == "exchange" else "ratio ": here / there,
        }
    return cells


def main() -> None:
    parser = _report.arguments("What a claim costs behind the rows that an old snapshot keeps.")
    parser.add_argument("--rows", type=int, default=DEAD, help="of jobs that ended behind the snapshot")
    options = parser.parse_args()
    with _stores.stores("postgres") as fresh:
        measured = run(options.rows, options.rounds or 1000, fresh)
    _report.show("dead rows behind an old snapshot on postgres: one claim", [measured], options.json)
    if not options.json:
        print(f"  target: {verdict(measured)}")


def verdict(measured: Mapping[str, _report.Cell]) -> str:
    """Whether the target is met: by as many rows as it has, and no fewer."""
    wanted = f"the p99 of an exchange behind {DEAD:,} dead rows at most {DEAD_AT_MOST} × that without"
    if measured["dead rows"] != f"{DEAD:,}":
        return f"{wanted}: not measured, there were {measured['dead rows']}"
    return f"{wanted}: {'met' if float(str(measured['ratio'])) <= DEAD_AT_MOST else 'NOT met'}"


if __name__ == "__main__":
    main()
