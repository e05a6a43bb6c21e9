"""A deploy that is rolled out worker by worker: jobs of a new kind wait for the workers that know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.job import NewJob
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

FRESH = """@app.task(queue="tag")
def fresh(n: int) -> str:
    note(f"fresh {n}")
    return "new"
"""
FRESH_COROUTINES = """app.pool("crowd", concurrency=10)


@app.task(queue="crowd")
async def old() -> None: ...
"""


@pytest.mark.both_stores
def test_jobs_of_a_new_kind_wait_for_the_first_worker_of_the_new_application(crew: Crew) -> None:
    """It is started beside the old one, which goes on: whatever that is handed comes back unspent."""
    crew.env["ROTA_POLL_INTERVAL"] = "100ms"
    crew.start("tag=2")
    ids = [job.id for job in crew.app.enqueue_many(NewJob("new", "tag", "fresh", {"n": n}) for n in range(20))]
    (known,) = crew.done(crew.add("tag", n=1))
    assert known.attempts == 1, "what the old workers know is done meanwhile"
    eventually(lambda: crew.app.queues.counts()["tag"].get("blocked") == 20)
    assert {(job.blocked_on, job.attempts) for job in crew.app.jobs.list(queue="tag", status="blocked")} == {
        ("kind", 0)
    }
    assert "waits for a worker that knows its kind, 'fresh'" in crew.call("why", str(ids[0]))
    assert "20 jobs of kind fresh wait for a worker that knows it in queue tag" in crew.call("doctor")
    crew.teach(FRESH)
    crew.start_beside()
    assert {(job.result, job.attempts) for job in crew.done(*ids)} == {("new", 1)}
    assert sorted(line for line in crew.ledger() if line.startswith("fresh")) == sorted(f"fresh {n}" for n in range(20))
    assert crew.stop() == 0


def test_a_pool_of_coroutines_sets_aside_what_it_does_not_know(crew: Crew) -> None:
    crew.teach(FRESH_COROUTINES)
    crew.start("crowd=1")
    job = crew.app.enqueue(NewJob("new", "crowd", "fresh", {"n": 1}))
    eventually(lambda: job.get().blocked_on == "kind")
    crew.teach(FRESH.replace('"tag")\ndef', '"crowd")\nasync def'))
    worker = crew.app.store.slots.all()[0].worker or ""
    crew.call("worker", "stop", worker)
    assert crew.done(job.id)[0].result == "new"
    assert crew.stop() == 0


def test_after_the_time_out_a_job_of_an_unknown_kind_has_failed(crew: Crew) -> None:
    crew.env["ROTA_UNKNOWN_KIND_TIMEOUT"] = "200ms"
    crew.start("tag=1")
    job = crew.app.enqueue(NewJob("new", "tag", "fresh"))
    eventually(lambda: job.get().status == "failed")
    assert job.get().error == "no worker knew its kind, 'fresh', within 200ms"
    assert job.get().attempts == 0
    assert crew.stop() == 0


def test_a_job_without_a_kind_fails_at_once(crew: Crew) -> None:
    """No worker will ever declare that one."""
    crew.start("tag=1")
    job = crew.app.enqueue(NewJob("none", "tag"))
    eventually(lambda: job.get().status == "failed")
    assert "the job says no task: add it with --kind" in (job.get().error or "")
    assert crew.stop() == 0
