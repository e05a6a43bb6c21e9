"""Handlers that keep a connection, whose database goes away under them: their jobs do not pay for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.core.job import NewJob
from tests.support.eventually import eventually
from tests.support.postgres import own

if TYPE_CHECKING:
    from tests.support.crews import Crew

KEEPS = """import psycopg

kept = []


@app.task(queue="write")
def write(n: int) -> None:
    if not kept:
        kept.append(psycopg.connect({url!r}, autocommit=True))
    time.sleep(0.01)
    kept[0].execute("INSERT INTO written (n) VALUES (%s)", (n,))
"""
MANY, ENOUGH = 1000, 200


@pytest.mark.postgres
def test_no_job_fails_for_good_when_the_database_that_handlers_are_connected_to_restarts(crew: Crew) -> None:
    """It stays away for several tries of the pool, and the workers' connections are broken when it is back."""
    with own(durable=True) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE written (n BIGINT)")
        crew.teach(KEEPS.format(url=server.url))
        crew.app.enqueue_many(NewJob("write", "write", "write", {"n": n}) for n in range(MANY))
        crew.start("write=4")
        eventually(lambda: crew.app.queues.counts()["write"]["done"] >= ENOUGH)
        server.crash()
        eventually(lambda: len(crew.said("pool write tries")) >= 3)
        server.start()
        eventually(lambda: crew.app.queues.counts()["write"]["done"] == MANY, within=100)
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT count(DISTINCT n) FROM written").fetchone() == (MANY,)
    assert crew.app.jobs.list("failed") == []
    spent = [job.attempts for job in crew.app.jobs.list(queue="write", limit=MANY)]
    assert max(spent) <= 2 and sum(spent) - MANY <= 40, "few were charged, before it was clear that all fail"
    assert any("went well: pool write goes on" in line for line in crew.said("pool write"))
    assert crew.stop() == 0


def test_bad_jobs_in_a_row_do_not_hold_up_the_good_ones_behind_them(crew: Crew) -> None:
    """They look the same at first: the pool backs off, tries more each round, and goes on with the first good job."""
    crew.start("tag=2")
    crew.done(*(job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(ENOUGH))))
    bad = crew.app.enqueue_many(crew.new("broken", n=n).replace(priority=1) for n in range(12))
    good = crew.add("tag", n=ENOUGH)
    crew.done(good)
    assert crew.said("every job of pool tag fails, the last with ValueError") and crew.said("pool tag goes on")
    uncharged = [run for job in bad for run in crew.app.claims.runs(job.id) if run.reason == "pool"]
    assert uncharged and {(run.verb, (run.error or "")[:10]) for run in uncharged} == {("fail", "ValueError")}
    assert crew.stop() == 0
