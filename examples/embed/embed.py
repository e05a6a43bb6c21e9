"""Turn the texts of a table into vectors: a source finds those without one, workers write it back in your transaction.

python embed.py make 200                                         # a table of so many texts, two of them empty
rota tracking install                                            # the tables that workers report to
rota orchestrator start --app embed:app --pool embed=2           # work; Ctrl-C ends it
rota tracking status                                             # who lives, and how far it is
python embed.py near "a walk by the sea"                         # the texts that are nearest

`ROTA_DB` tells rota and `DATABASE_URL` this program where both keep their tables: postgresql://user@localhost/texts.
"""

from __future__ import annotations

import math
import os
import sys
import zlib

import psycopg

import rota

LENGTH = 256
DATABASE = os.environ["DATABASE_URL"]
app = rota.App(DATABASE)


def texts() -> psycopg.Connection:
    return psycopg.connect(DATABASE)


def embed_text(text: str) -> list[float]:
    """A vector of length 1: how often each three letters occur, at a place that their hash gives."""
    words = f" {' '.join(text.lower().split())} "
    counts = [0.0] * LENGTH
    for start in range(len(words) - 2):
        counts[zlib.crc32(words[start : start + 3].encode()) % LENGTH] += 1.0
    length = math.hypot(*counts)
    if not length:
        raise ValueError("there is nothing to embed in an empty text")
    return [round(count / length, 6) for count in counts]


@app.task(queue="embed", max_attempts=2)
def embed(body: str, ctx: rota.Context) -> None:
    """The vector and the end of the job are one transaction: no text is embedded twice, and none is forgotten."""
    vector = embed_text(body)
    with texts() as connection:
        connection.execute("UPDATE note SET vector = %s WHERE id = %s", (vector, int(ctx.job.key or 0)))
        ctx.settle_in(connection)


app.source(queue="embed", task=embed, name="unembedded", every="2s", low=50, batch=200, vectorizer="note")(
    rota.SqlSource("SELECT id, body FROM note WHERE vector IS NULL ORDER BY id", connect=texts)
)


def make(count: int) -> None:
    what, where = ("a walk", "an evening", "two letters", "the market"), ("by the sea", "in town", "at home")
    bodies = [f"{what[n % 4]} {where[n % 3]}, day {n}" for n in range(count - 2)]
    with texts() as connection:
        connection.execute("CREATE TABLE note (id serial PRIMARY KEY, body text NOT NULL, vector real[])")
        connection.execute("CREATE INDEX note_unembedded ON note (id) WHERE vector IS NULL")
        connection.cursor().executemany("INSERT INTO note (body) VALUES (%s)", [(body,) for body in [*bodies, "", ""]])


def near(text: str) -> list[str]:
    """The three texts nearest to this one."""
    wanted = embed_text(text)
    with texts() as connection:
        rows = connection.execute("SELECT body, vector FROM note WHERE vector IS NOT NULL").fetchall()
    scored = ((sum(a * b for a, b in zip(wanted, vector, strict=True)), body) for body, vector in rows)
    return [body for _, body in sorted(scored, reverse=True)[:3]]


if __name__ == "__main__":
    verb, argument = sys.argv[1:]
    if verb == "make":
        make(int(argument))
    else:
        print("\n".join(near(argument)))
