"""How soon a change reaches those who follow the live feed, and how many changes a second reach them all.

    ./dev bench fanout

Readers of server-sent events follow one queue over HTTP, on a server with nothing else to do. Jobs are added to it ten
times a second; what is measured is from before each enqueue until a reader has its event.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

from benchmarks import _report
from benchmarks.http import ROTA, Place, cpu_ms, read_beside
from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.open import open_store

if TYPE_CHECKING:
    from rota.store.store import Store

READERS = (1, 100, 500)
EVERY = 0.1


class Following:
    """One reader: when it got the event of each job."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.got: dict[str, float] = {}
        self.is_up = asyncio.Event()

    async def follow(self) -> None:
        reader, writer = await asyncio.open_connection(self._place.host, self._place.port, limit=1 << 22)
        writer.write(self._place.follow)
        try:
            while line := await reader.readline():
                self.is_up.set()
                if line.startswith(b"data: ") and b'"job"' in line:
                    told = json.loads(line[6:]).get("job")
                    if told:
                        self.got.setdefault(told["path"], time.perf_counter())
        finally:
            writer.close()


async def measure(place: Place, pid: int, store: Store, readers: int, changes: int) -> dict[str, _report.Cell]:
    following = [Following(place) for _ in range(readers)]
    tasks = [asyncio.create_task(each.follow()) for each in following]
    for each in following:
        await each.is_up.wait()
    await asyncio.sleep(0.5)
    added: dict[str, float] = {}
    spent = cpu_ms(pid)
    for n in range(changes):
        title = f"{readers}-{n}"
        added[title] = time.perf_counter()
        store.jobs.add(NewJob(title, "tag"))
        await asyncio.sleep(EVERY)
    deadline = time.perf_counter() + 10
    while any(title not in each.got for each in following for title in added) and time.perf_counter() < deadline:
        await asyncio.sleep(0.02)
    spent = cpu_ms(pid) - spent
    for task in tasks:
        task.cancel()
    late = [(each.got[title] - at) * 1e3 for each in following for title, at in added.items() if title in each.got]
    return {
        "readers": readers,
        "events": readers * changes,
        "reached": len(late),
        "p50 ms": _report.median(late),
        "p99 ms": _report.percentile(late, 0.99),
        "CPU ms per event": spent / (readers * changes),
        "met": len(late) == readers * changes,
    }


async def play(place: Place, pid: int, path: str, changes: int) -> list[dict[str, _report.Cell]]:
    with open_store(path, Settings()) as store:
        store.jobs.add(NewJob("the first", "tag"))
        return [await measure(place, pid, store, readers, changes) for readers in READERS]


def main() -> None:
    parser = _report.arguments("How soon a change reaches those who follow the live feed.")
    parser.add_argument("--changes", type=int, default=50, help="how many jobs are added for each number of readers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        environment = {**os.environ, "ROTA_DB": os.path.join(folder, ".rota", "rota.db")}
        os.mkdir(os.path.join(folder, ".rota"))
        open_store(environment["ROTA_DB"], Settings(), make=True).close()
        words = [ROTA, "serve", "--port", "0"]
        with subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                url = server.stdout.readline().split()[-1]
                place = Place(url, read_beside(folder, "token"))
                table = asyncio.run(play(place, server.pid, environment["ROTA_DB"], options.changes))
            finally:
                server.terminate()
    _report.show("fanout: server-sent events of one queue; every reader gets every event", table, options.json)


if __name__ == "__main__":
    main()
