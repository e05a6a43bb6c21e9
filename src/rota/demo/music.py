"""The application: it scans a library into a table of its own, tags what a source finds there, and recalibrates albums.

rota orchestrator start --app rota.demo.music:app --pool library=10 --pool tag=2 --pool calibration=5
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING

from rota.app import App
from rota.demo import sound
from rota.worker.sources.sql_source import SqlSource

if TYPE_CHECKING:
    from rota.worker.context import Context

TARGET = -18.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS file (id INTEGER PRIMARY KEY, album TEXT NOT NULL, path TEXT NOT NULL UNIQUE, seconds REAL,
    loudness REAL, tempo INTEGER, brightness REAL, gain REAL);
CREATE INDEX IF NOT EXISTS file_loudness_id ON file (loudness, id);
CREATE TABLE IF NOT EXISTS begun (at INTEGER NOT NULL, file INTEGER NOT NULL, worker TEXT NOT NULL, tagged INTEGER)
"""

app = App()


def library() -> sqlite3.Connection:
    """The application's own table; rota adds nothing to it."""
    return sqlite3.connect("library.db", timeout=30, isolation_level=None)


@app.task(queue="library")
def scan(album: str) -> int:
    """Enter the files of an album."""
    folder = os.path.join("music", album)
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    rows = [(album, path, sound.seconds(path)) for path in files]
    connection = library()
    connection.executemany("INSERT OR IGNORE INTO file (album, path, seconds) VALUES (?, ?, ?)", rows)
    connection.close()
    return len(rows)


@app.task(queue="tag")
def tag(path: str, ctx: Context) -> None:
    """Work out how a piece sounds. What it writes last is the mark that the source looks at."""
    connection = library()
    begun = (time.monotonic_ns(), ctx.job.key, ctx.worker_id)
    row = connection.execute("INSERT INTO begun (at, file, worker) VALUES (?, ?, ?)", begun).lastrowid
    measured = sound.measure(sound.read(path))
    connection.execute("BEGIN IMMEDIATE")
    values = (measured.loudness, measured.tempo, measured.brightness, ctx.job.key)
    connection.execute("UPDATE file SET loudness = ?, tempo = ?, brightness = ? WHERE id = ?", values)
    connection.execute("UPDATE begun SET tagged = 1 WHERE rowid = ?", (row,))
    connection.execute("COMMIT")
    connection.close()


@app.task(queue="calibration")
def calibrate(album: str) -> float:
    """Find the gain that brings an album to the loudness of all the others, and keep it with its files."""
    connection = library()
    ((mean,),) = connection.execute("SELECT avg(loudness) FROM file WHERE album = ?", (album,))
    gain: float = round(TARGET - mean, 1)
    connection.execute("UPDATE file SET gain = ? WHERE album = ?", (gain, album))
    connection.close()
    return gain


app.source(queue="tag", task=tag, name="untagged", every="1s", low=20, batch=100)(
    SqlSource("SELECT id, path FROM file WHERE loudness IS NULL ORDER BY id", connect=library)
)
