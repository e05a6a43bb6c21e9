"""The measurements of `rota bench`: rota and the raw limit in turn, for a few rounds."""

from __future__ import annotations

import os
import platform
import secrets
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.core.record import Record
from rota.core.version import __version__
from rota.lab.bench import bare, measured_crew, store_rates
from rota.lab.percentiles import median_ratio, percentile, spread
from rota.settings import Settings
from rota.store.open import within_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Measure = Callable[[str, int, int], float]
    Samples = dict[str, tuple[list[float], list[float]]]

BULK, WORKERS, LONG_JOB_MS = 1000, 2, 400
BATCH = {"sqlite": 50, "postgres": 100}
RATE, TIME = "jobs/s", "ms"


class RunSize(Record):
    """The amount of work in one round of measurements."""

    rounds: int = 3
    jobs: int = 20_000

    @property
    def times(self) -> int:
        """The number of repetitions of something small: in a full run, enough for a p99."""
        return max(5, self.jobs // 200)

    @property
    def kills(self) -> int:
        return max(2, self.jobs // 2000)


class Bench:
    """Measures in a folder, and on a PostgreSQL server if one is named, and leaves nothing in either."""

    def __init__(self, folder: str, server: str | None, size: RunSize, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._server = server
        self._size = size
        self._say = say
        self.store = "postgres" if server else "sqlite"
        self._samples: Samples = {}

    def run(self) -> dict[str, Any]:
        """Measure everything; return one document."""
        for number in range(1, self._size.rounds + 1):
            for what, measure in self._plan().items():
                self._say(f"round {number} of {self._size.rounds}: {what}")
                ours, raw = self._samples.setdefault(what, ([], []))
                more_ours, more_raw = measure()
                ours += more_ours
                raw += more_raw
        about = {"store": self.store, "rounds": self._size.rounds, "version": __version__, "cores": os.cpu_count()}
        return {**about, "python": platform.python_version(), "figures": [*self._figures()]}

    def _plan(self) -> dict[str, Callable[[], tuple[list[float], list[float]]]]:
        jobs, times, batch = self._size.jobs, self._size.times, BATCH[self.store]
        return {
            "enqueue, one by one": lambda: self._pair(store_rates.enqueue_rota, store_rates.enqueue_raw, 1, times * 5),
            f"enqueue, {BULK:,} at once": lambda: self._pair(
                store_rates.enqueue_rota, store_rates.enqueue_raw, BULK, max(1, jobs // BULK)
            ),
            f"exchange, {batch} at once": lambda: self._pair(
                store_rates.drain_rota, store_rates.drain_raw, batch, jobs
            ),
            f"work off a queue, {WORKERS} workers": self._drain,
            "pickup": self._pickup,
            "a killed worker's job runs again": self._recover,
            "fsync of a page": self._sync,
        }

    def _pair(self, ours: Measure, raw: Measure, batch: int, count: int) -> tuple[list[float], list[float]]:
        rates = []
        for measure in (ours, raw):
            with self._new_database() as url:
                rates.append([measure(url, batch, count)])
        return rates[0], rates[1]

    def _drain(self) -> tuple[list[float], list[float]]:
        with self._new_folder() as folder:
            ours = measured_crew.noop_rate(folder, self._server, WORKERS, self._size.jobs)
        with self._new_database() as url:
            if self._server:
                return [ours], [store_rates.drain_raw(url, BATCH[self.store], self._size.jobs)]
            return [ours], [bare.drain(url, self._size.jobs, WORKERS)]

    def _pickup(self) -> tuple[list[float], list[float]]:
        with self._new_folder() as folder:
            ours = measured_crew.pickups(folder, self._server, self._size.times)
        if self._server:
            return ours, []
        with self._new_database() as url:
            return ours, bare.pickup(url, self._size.times)

    def _recover(self) -> tuple[list[float], list[float]]:
        with self._new_folder() as folder:
            again, _, once = measured_crew.kill_workers(folder, self._server, self._size.kills, 1, LONG_JOB_MS)
        assert once, "a job was settled twice"
        return again, bare.recover(self._size.kills)[0]

    def _sync(self) -> tuple[list[float], list[float]]:
        with self._new_folder() as folder:
            return [], bare.sync_times(folder, self._size.times)

    @contextmanager
    def _new_folder(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="round-", dir=self._folder) as folder:
            yield folder

    @contextmanager
    def _new_database(self) -> Iterator[str]:
        """Yield the URL or path of a fresh database."""
        if self._server is None:
            with self._new_folder() as folder:
                yield os.path.join(folder, "rota.db")
            return
        from rota.store.postgres.open import remove

        url = within_schema(self._server, f"rota_bench_{secrets.token_hex(8)}")
        try:
            yield url
        finally:
            remove(url, Settings())

    def _figures(self) -> Iterator[dict[str, Any]]:
        for what, (ours, raw) in self._samples.items():
            if what.startswith(("enqueue", "exchange", "work off")):
                yield {**_row(what, RATE, ours, raw), "ratio": median_ratio(ours, raw)}
                continue
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                yield _row(f"{what}, {name}", TIME, ours, raw, share)


def _row(what: str, unit: str, ours: list[float], raw: list[float], share: float = 0.5) -> dict[str, Any]:
    rota = percentile(ours, share) if ours else None
    limit = percentile(raw, share) if raw else None
    ratio = rota / limit if rota is not None and limit else None
    return {
        "what": what,
        "unit": unit,
        "rota": rota,
        "spread": spread(ours) if ours and share == 0.5 else None,
        "raw": limit,
        "ratio": ratio,
        "samples": len(ours or raw),
    }
