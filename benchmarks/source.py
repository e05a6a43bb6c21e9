"""A table worked off once each by two crews that compete, and what that costs against the same jobs in a queue.

    ./dev bench source            100,000 rows; `./dev bench source --rows 20000` is shorter

Each row is marked by its handler in the user's own table, so a row that ran twice would show. Beside it, in turn, as
many ordinary jobs of the same handler run with the same crews.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from typing import TYPE_CHECKING

from benchmarks import _report
from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.store import Store

ROWS = 100_000
PATIENCE = 900
ROTA = os.path.join(os.path.dirname(sys.executable), "rota")
SHOP = """
import sqlite3
import rota

app = rota.App()
own = []


def files():
    connection = sqlite3.connect("files.db", timeout=60, isolation_level=None)
    connection.execute("PRAGMA synchronous=OFF")
    return connection


@app.setup(queue="tag")
def setup():
    own.append(files())


@app.task(queue="tag")
def tag(id):
    own[-1].execute("UPDATE file SET done = done + 1 WHERE id = ?", (id,))
"""
SOURCE = """
app.source(queue="tag", task=tag, name="files", every="1h", low=1000, batch=5000)(
    rota.SqlSource("SELECT id FROM file WHERE done = 0 ORDER BY id", connect=files)
)
"""


def from_source(folder: str, rows: int) -> float:
    """Rows a second from a source, by two crews of two."""
    with _opened(folder, SHOP + SOURCE, rows) as store:
        return _race(folder, rows, lambda: _succeeded(store))


def from_queue(folder: str, rows: int) -> float:
    """Jobs a second that were added before."""
    with _opened(folder, SHOP, rows) as store:
        store.jobs.add_many(NewJob("tag", "tag", "tag", {"id": id}) for id in range(1, rows + 1))
        return _race(folder, rows, lambda: store.queues.list()[0].counts["done"])


def _race(folder: str, rows: int, done: Callable[[], int]) -> float:
    """Let two crews compete until all is done, and see that nothing was done twice."""
    first = [ROTA, "orchestrator", "start", "--app", "shop:app", "--pool", "tag=2", "--no-http"]
    second = [ROTA, "worker", "start", "--name", "second", "--app", "shop:app", "--queue", "tag", "--workers", "2"]
    crews = [subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL) for words in (first, second)]
    try:
        while not done():
            time.sleep(0.01)
        started, before = time.perf_counter(), done()
        deadline = started + PATIENCE
        while (now := done()) < rows:
            assert time.perf_counter() < deadline, f"only {now:,} of {rows:,} after {PATIENCE} s"
            time.sleep(0.05)
        rate = (rows - before) / (time.perf_counter() - started)
    finally:
        for crew in crews:
            crew.send_signal(signal.SIGTERM)
        codes = [crew.wait(60) for crew in crews]
    assert codes == [0, 0], codes
    with closing(sqlite3.connect(os.path.join(folder, "files.db"))) as connection:
        found = connection.execute("SELECT done, count(*) FROM file GROUP BY done").fetchall()
    assert found == [(1, rows)], f"not once each: {found}"
    return rate


def _succeeded(store: Store) -> int:
    found = store.sources.list()
    return found[0].source.success_count if found else 0


def _opened(folder: str, shop: str, rows: int) -> Store:
    with open(os.path.join(folder, "shop.py"), "w", encoding="utf-8") as file:
        file.write(shop)
    with closing(sqlite3.connect(os.path.join(folder, "files.db"))) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE file (id INTEGER PRIMARY KEY, done INTEGER NOT NULL DEFAULT 0)")
        connection.executemany("INSERT INTO file (id) VALUES (?)", ((id,) for id in range(1, rows + 1)))
        connection.execute("CREATE INDEX file_done ON file (done, id)")
        connection.commit()
    path = os.path.join(folder, ".rota", "rota.db")
    os.mkdir(os.path.dirname(path))
    return open_store(path, Settings(), make=True)


def main() -> None:
    parser = _report.arguments("A table worked off once each by two crews that compete.")
    parser.add_argument("--rows", type=int, default=ROWS, help="how many rows the table has")
    options = parser.parse_args()
    samples: dict[str, list[float]] = {"source": [], "queue": []}
    for _ in range(options.rounds or 1):
        for name, run in (("source", from_source), ("queue", from_queue)):
            with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
                samples[name].append(run(folder, options.rows))
    source, queue = (_report.median(samples[name]) for name in ("source", "queue"))
    what = f"rows/s, {options.rows:,} once each"
    row: dict[str, _report.Cell] = {"what": what, "source": source, "queue": queue, "ratio": source / queue}
    _report.show("source: two crews of two compete, synchronous=FULL", [row], options.json)


if __name__ == "__main__":
    main()
