"""Tag the files of a library: a source finds those without a tag in the library's own table, workers tag them.

python library.py 200                                            # make library.db with so many files
rota source check untagged --app library:app                     # what it would add, and how the query is run
rota orchestrator start --app library:app --pool tag=2           # work; Ctrl-C ends it
rota source list                                                 # how far it is
"""

from __future__ import annotations

import sqlite3
import sys

import rota

app = rota.App()


def library() -> sqlite3.Connection:
    return sqlite3.connect("library.db", timeout=30)


@app.task(queue="tag", max_attempts=2)
def tag(path: str, ctx: rota.Context) -> None:
    """Leave the mark that the source looks at, before returning: then the key does not come again."""
    if path.endswith(".txt"):
        raise ValueError(f"{path} is no recording")
    with library() as connection:
        connection.execute("UPDATE file SET tag = ? WHERE id = ?", (path[:1], ctx.job.key))


untagged = app.source(queue="tag", task=tag, name="untagged", every="5s", low=50, batch=200)(
    rota.SqlSource("SELECT id, path FROM file WHERE tag IS NULL ORDER BY id", connect=library)
)


@app.source(queue="tag", task=tag, every="1h")
def strays() -> list[tuple[str, dict[str, str]]]:
    """A source may be any function; here one that finds nothing."""
    return []


def make(count: int) -> None:
    with library() as connection:
        connection.execute("CREATE TABLE file (id INTEGER PRIMARY KEY, path TEXT NOT NULL, tag TEXT)")
        connection.execute("CREATE INDEX file_tag_id ON file (tag, id)")
        rows = ((f"{'abcdef'[n % 6]}/{n}.wav",) for n in range(count - 1))
        connection.executemany("INSERT INTO file (path) VALUES (?)", rows)
        connection.execute("INSERT INTO file (path) VALUES ('notes.txt')")


if __name__ == "__main__":
    make(int(sys.argv[1]))
