"""Run the demo: make a library, let a crew process it, kill a worker on the way, and report the outcome."""

from __future__ import annotations

import os
import secrets
import signal
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from rota.core.errors import BadInput, RotaError
from rota.demo import sound
from rota.store.open import within_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.app import App
    from rota.crew import Crew

ALBUMS, TRACKS = 24, 10
PIECES = ALBUMS * TRACKS
POOLS = {"library": 10, "tag": 2, "calibration": 5}
PATIENCE = 120.0
LOOK_EVERY = 0.05
TRIES = 20
BAR_WIDTH = 32
EIGHTHS = " ▏▎▍▌▋▊▉"
QUARTERS = 4


class NotAsPromised(RotaError):
    """The work was not done, or not in time."""


def new_schema(url: str) -> str:
    """Return the URL of a new schema on a PostgreSQL server."""
    return within_schema(url, f"rota_demo_{secrets.token_hex(4)}")


def run(folder: str, progress: Progress, db: str | None = None) -> dict[str, Any]:
    """Run the demo in a folder, which becomes the current one, with the jobs in `db` or a file; return its outcome."""
    own = os.path.join(folder, ".rota")
    os.makedirs(own)
    for name in [name for name in os.environ if name.startswith("ROTA_")]:
        del os.environ[name]
    os.environ["ROTA_DB"] = db or os.path.join(own, "rota.db")
    os.environ["XDG_RUNTIME_DIR"] = own
    os.chdir(folder)
    from rota.demo import music

    music.app.store.now()  # fail before anything is made if the server cannot be used
    albums = make_library(progress)
    with closing(music.library()) as table:
        table.execute("PRAGMA journal_mode = WAL")
        table.executescript(music.SCHEMA)
    with closing(music.app), music.app.crew(POOLS, log=os.path.join(own, "crew.log")) as crew:
        pools = ", ".join(f"{pool} {size}" for pool, size in POOLS.items())
        progress.write_line(f"a crew of {sum(POOLS.values())} workers begins: {pools}")
        outcome = _Play(music.app, crew, progress, albums).run()
    return {**outcome, "seconds": round(progress.seconds, 1), "folder": folder}


def make_library(progress: Progress) -> list[str]:
    """Write short pieces of music into a folder per album; return the names of the albums."""
    albums = [f"album-{n:02}" for n in range(1, ALBUMS + 1)]
    for at, album in enumerate(albums):
        os.makedirs(os.path.join("music", album))
        for track in range(TRACKS):
            piece = sound.compose(at * TRACKS + track)
            sound.write(os.path.join("music", album, f"{track + 1:02}.wav"), sound.play(piece))
        progress.update("compose", (at + 1) * TRACKS, PIECES)
    return albums


class _Play:
    """One run over a library, by a crew that is up."""

    def __init__(self, app: App, crew: Crew, progress: Progress, albums: list[str]) -> None:
        from rota.demo import music

        self._app = app
        self._crew = crew
        self._progress = progress
        self._albums = albums
        self._music = music
        self._table = music.library()
        self._until = time.monotonic() + PATIENCE

    def run(self) -> dict[str, Any]:
        try:
            scans = self._app.enqueue_many(self._music.scan.job(album) for album in self._albums)
            self._wait(lambda: self._are_done("scan", [job.id for job in scans]))
            self._wait(lambda: self._tagged() >= PIECES // 3)
            killed = self._kill_one()
            self._wait(lambda: self._tagged() >= PIECES)
            gains = self._app.enqueue_many(self._music.calibrate.job(album) for album in self._albums)
            self._wait(lambda: self._are_done("calibrate", [job.id for job in gains]))
            self._wait(lambda: self._app.store.sources.get("untagged").success_count >= PIECES)
            self._wait(lambda: set(self._crew.states().values()) == {"up"})
            return self._sum_up(killed)
        finally:
            self._table.close()

    def _wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if not self._crew.is_running:
                raise NotAsPromised("the crew's orchestrator ended before the work was done")
            if time.monotonic() > self._until:
                raise NotAsPromised(f"the work was not done within {PATIENCE:.0f} s")
            time.sleep(LOOK_EVERY)

    def _are_done(self, label: str, ids: list[int]) -> bool:
        done = sum(self._app.jobs.get(id).status == "done" for id in ids)
        self._progress.update(label, done, len(ids))
        return done == len(ids)

    def _tagged(self) -> int:
        ((count,),) = self._table.execute("SELECT count(*) FROM file WHERE loudness IS NOT NULL")
        self._progress.update("tag", count, PIECES)
        return int(count)

    def _kill_one(self) -> dict[str, Any]:
        """Send SIGKILL to a worker amid a piece, and measure until another worker begins that piece."""
        for _ in range(TRIES):
            at, worker, file = self._kill_the_last_to_begin()
            self._wait(partial(self._is_over, file, at))
            again = self._begun_again(file, at)
            if again is not None:
                ((path,),) = self._table.execute("SELECT path FROM file WHERE id = ?", (file,))
                took = round((again[0] - at) / 1e6, 1)
                self._progress.write_line(f"{again[1]} has begun it again, {took} ms after the kill")
                return {"worker": worker, "piece": path, "again_by": again[1], "again_after_ms": took}
        raise NotAsPromised(f"in {TRIES} tries no worker was killed amid its piece")

    def _is_over(self, file: int, at: int) -> bool:
        """Return whether the piece was begun again since, or was tagged before the kill."""
        return self._begun_again(file, at) is not None or self._is_tagged(file)

    def _kill_the_last_to_begin(self) -> tuple[int, str, int]:
        pids = {worker.id: worker.pid for worker in self._crew.workers() if worker.queue == "tag"}
        while True:
            before = time.monotonic_ns()
            query = "SELECT worker, file FROM begun WHERE tagged IS NULL ORDER BY at DESC LIMIT 1"
            row = self._table.execute(query).fetchone()
            if row is not None and pids.get(row[0]) is not None:
                os.kill(pids[row[0]] or 0, signal.SIGKILL)
                ((path,),) = self._table.execute("SELECT path FROM file WHERE id = ?", (row[1],))
                self._progress.write_line(f"SIGKILL to {row[0]}, amid {path}")
                return before, row[0], row[1]
            if time.monotonic() > self._until:
                raise NotAsPromised("no worker was seen to begin a piece")

    def _begun_again(self, file: int, after: int) -> tuple[int, str] | None:
        query = "SELECT at, worker FROM begun WHERE file = ? AND at > ? ORDER BY at LIMIT 1"
        row = self._table.execute(query, (file, after)).fetchone()
        return None if row is None else (int(row[0]), str(row[1]))

    def _is_tagged(self, file: int) -> bool:
        query = "SELECT 1 FROM begun WHERE file = ? AND tagged = 1"
        return self._table.execute(query, (file,)).fetchone() is not None

    def _sum_up(self, killed: dict[str, Any]) -> dict[str, Any]:
        source = self._app.store.sources.get("untagged")
        counts = {status.queue.name: status.counts for status in self._app.queues.list()}
        slots = self._crew.slots()
        pools = [
            {
                "pool": pool,
                "workers": size,
                "done": source.success_count if pool == "tag" else counts.get(pool, {}).get("done", 0),
                "failed": counts.get(pool, {}).get("failed", 0),
                "restarts": sum(slot.history.lifetime for slot in slots if slot.queue == pool),
            }
            for pool, size in POOLS.items()
        ]
        query = "SELECT count(*) FROM (SELECT file FROM begun WHERE tagged = 1 GROUP BY file HAVING count(*) = 1)"
        ((once,),) = self._table.execute(query)
        good = once == PIECES == source.success_count and not any(pool["failed"] for pool in pools)
        return {
            "is_good": good,
            "pieces": PIECES,
            "tagged_once": once,
            "killed": killed,
            "pools": pools,
            "albums": self._loudest(),
        }

    def _loudest(self) -> list[dict[str, Any]]:
        query = """SELECT album, round(avg(loudness), 1), CAST(round(avg(tempo)) AS INTEGER),
            CAST(round(avg(brightness)) AS INTEGER), max(gain) FROM file GROUP BY album ORDER BY 2 DESC LIMIT 5"""
        names = ("album", "loudness", "tempo", "brightness", "gain")
        return [dict(zip(names, row, strict=True)) for row in self._table.execute(query)]


def check_folder(folder: str) -> None:
    """Check that the folder is new or empty: the demo removes nothing."""
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise BadInput(f"{folder} is there already: name a folder that is new or empty")


class Progress:
    """Lines and bars, written by `write`; with `live` the bars below the last line are redrawn."""

    def __init__(self, write: Callable[[str], None], live: bool) -> None:
        self._write = write
        self._live = live
        self._began = time.monotonic()
        self._bars: dict[str, tuple[int, int]] = {}
        self._drawn = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def write_line(self, text: str) -> None:
        """Write a line that stays."""
        self._wipe()
        self._write(f"{self.seconds:5.1f} s  {text}\n")
        self._draw()

    def update(self, label: str, done: int, total: int) -> None:
        """Show how much is done: on a terminal as a bar, elsewhere as a line at every quarter."""
        before = self._bars.get(label, (0, total))
        if (done, total) == before:
            return
        self._bars[label] = done, total
        if self._live:
            self._wipe()
            self._draw()
        elif total and done * QUARTERS // total > before[0] * QUARTERS // total:
            self._write(f"{self.seconds:5.1f} s  {label:<12} {done} of {total}\n")

    def _wipe(self) -> None:
        if self._drawn:
            self._write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0

    def _draw(self) -> None:
        if self._live:
            bars = self._bars.items()
            self._write("".join(f"{label:<12} {bar(done, total)} {done}/{total}\n" for label, (done, total) in bars))
            self._drawn = len(bars)


def bar(done: int, total: int, width: int = BAR_WIDTH) -> str:
    """Draw a bar of `width` places, to an eighth of a place."""
    filled = width * 8 * done // max(1, total)
    whole, rest = divmod(min(filled, width * 8), 8)
    return ("█" * whole + (EIGHTHS[rest] if rest else "")).ljust(width, "░" if whole + bool(rest) < width else " ")
