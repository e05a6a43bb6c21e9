"""What becomes of a job, by what `execute` answered or raised."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import rota
from rota import App, GiveUp, Job, NewJob, Snooze
from rota.core.times import DAY
from rota.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def app(url: str) -> Iterator[App]:
    """An app whose failed jobs come back so late that no test meets them again."""
    app = App(url, Settings(backoff_first=DAY, backoff_most=DAY))
    yield app
    app.close()


def ended(app: App, execute: Any, **more: Any) -> Job:
    """One job, worked on once."""
    id = app.enqueue(NewJob("a job")).id
    assert rota.run_worker(execute, app=app, limit=1, **more) == 1
    return app.jobs.get(id)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (None, None),
        ("text", "text"),
        ({"tags": 3}, {"tags": 3}),
        ({"success": True}, None),
        ({"success": True, "output": "said"}, "said"),
        ({"success": True, "result": {"tags": 3}}, {"tags": 3}),
        ({"success": 1, "output": "said", "result": [1]}, [1]),
        (SimpleNamespace(success=True, output="said"), "said"),
    ],
)
def test_a_success_carries_its_output_as_the_result(app: App, answer: object, result: object) -> None:
    job = ended(app, lambda job, ctx: answer)
    assert (job.status, job.result, job.attempts) == ("done", result, 1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"success": False, "error": "the model refused"}, "the model refused"),
        ({"success": False, "error": "no \ud800 letters", "output": "x"}, "no ? letters"),
        ({"success": None}, "execute was not successful, and did not say why"),
        ({"success": 0, "error": ""}, "execute was not successful, and did not say why"),
        (SimpleNamespace(success=False, error=ValueError("bad")), "bad"),
        (object(), "TypeError: Object of type object is not JSON serializable"),
        ({"success": True, "output": {1, 2}}, "TypeError: Object of type set is not JSON serializable"),
        ("\ud800", "the result cannot be written as JSON: a text in it is not Unicode"),
    ],
)
def test_a_falsy_success_is_a_failed_run_with_its_message(app: App, answer: object, error: str) -> None:
    job = ended(app, lambda job, ctx: answer)
    assert (job.status, job.attempts) == ("scheduled", 1)
    assert job.error is not None and job.error.startswith(error)
    (run,) = app.claims.runs(job.id)
    assert (run.status, run.error) == ("failed", job.error)


@pytest.mark.parametrize(
    ("problem", "status", "attempts", "error"),
    [
        (ValueError("no such file"), "scheduled", 1, "ValueError: no such file (line "),
        (SystemExit(3), "scheduled", 1, "SystemExit: 3 (line "),
        (KeyboardInterrupt(), "scheduled", 1, "KeyboardInterrupt (line "),
        (asyncio.CancelledError(), "scheduled", 1, "CancelledError (line "),
        (ValueError("half a \ud800"), "failed", 1, "its outcome cannot be kept: "),
        (GiveUp("hopeless"), "failed", 1, "GiveUp: hopeless"),
        (Snooze("10m", "later"), "scheduled", 0, None),
    ],
)
def test_what_it_raises_is_an_outcome_and_the_worker_lives(
    app: App, problem: BaseException, status: str, attempts: int, error: str | None
) -> None:
    def execute(job: Job, ctx: Any) -> None:
        if job.title == "a job":
            raise problem

    next_one = app.enqueue(NewJob("the next", priority=-1)).id
    id = app.enqueue(NewJob("a job")).id
    assert rota.run_worker(execute, app=app, limit=2) == 2
    job = app.jobs.get(id)
    assert (job.status, job.attempts) == (status, attempts)
    assert (job.error or "").startswith(error or "") and bool(job.error) == bool(error)
    assert app.jobs.get(next_one).status == "done"


def test_a_result_over_256_kib_fails_for_good(app: App) -> None:
    job = ended(app, lambda job, ctx: "x" * 262_143)
    assert job.status == "failed" and job.error == "the result is too large: 262,145 bytes, at most 262,144"


def test_execute_may_be_a_coroutine_and_all_jobs_share_one_loop(app: App) -> None:
    loops = []

    async def execute(job: Job, ctx: Any) -> dict[str, object]:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        if job.title == "bad":
            raise ValueError("awaited in vain")
        return {"success": True, "output": job.title}

    good, bad = app.enqueue(NewJob("good")).id, app.enqueue(NewJob("bad")).id
    assert rota.run_worker(execute, app=app, limit=2) == 2
    assert app.jobs.get(good).result == "good"
    assert (app.jobs.get(bad).error or "").startswith("ValueError: awaited in vain")
    assert loops[0] is loops[1] and loops[0].is_closed()


def test_jobs_of_the_queue_are_taken_best_first_and_others_are_left(app: App) -> None:
    titles = []
    for title, queue, priority in (("a", "tag", 0), ("b", "tag", 5), ("c", "other", 9), ("d", "tag", 5)):
        app.enqueue(NewJob(title, queue, priority=priority))
    assert rota.run_worker(lambda job, ctx: titles.append(job.title), app=app, queue="tag", limit=3) == 3
    assert titles == ["b", "d", "a"]
    assert rota.run_worker(lambda job, ctx: titles.append(job.title), app=app, queue=None, limit=1) == 1
    assert titles[-1] == "c"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"execute": "model"}, "execute must be a function, execute(job, ctx), not 'model'"),
        ({"capture_io": {}}, "capture_io must be a function, capture_io(run_id, job), not {}"),
        ({"capture_io": lambda: None}, "capture_io takes (run_id, job) or (run_id), not ()"),
        ({"capture_io": lambda run_id, job, more: None}, "capture_io takes (run_id, job) or (run_id), not (run_id"),
        ({"limit": 0}, "limit must be at least 1, not 0: leave it out to work until asked to stop"),
        ({"queue": "a queue"}, "'a queue' is not a queue name"),
        ({"name": " "}, "a worker needs a name of at most 200 characters"),
        ({"context": {"token": 1}}, "ctx.token is rota's own: give your context another name, such as my_token"),
        ({"context": {"a b": 1}}, "'a b' cannot be an attribute of ctx: write a name such as model"),
    ],
)
def test_a_mistake_in_the_call_is_refused_before_anything_is_claimed(
    app: App, options: dict[str, Any], message: str
) -> None:
    id = app.enqueue(NewJob("a job")).id
    with pytest.raises(rota.BadInput) as refused:
        rota.run_worker(**{"execute": lambda job, ctx: None, "app": app, **options})
    assert str(refused.value).startswith(message)
    assert app.jobs.get(id).status == "ready" and app.workers.list(gone_too=True) == []
