"""What `execute` may ask its context."""

from __future__ import annotations

import json
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import rota
from rota import App, Job, NewJob
from rota.core.claim import Done
from rota.core.times import SECOND
from rota.settings import Settings
from rota.worker.context import RESERVED
from tests.support.eventually import eventually
from tests.worker.inprocess.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def app(url: str) -> Iterator[App]:
    """An app whose failed jobs come back at once."""
    app = App(url, Settings(backoff_first=1, backoff_most=1))
    yield app
    app.close()


def test_it_tells_of_the_job_the_run_and_the_earlier_attempts(app: App) -> None:
    facts: list[Any] = []

    def execute(job: Job, ctx: Any) -> None:
        if ctx.attempt == 1:
            raise ValueError("not yet")
        (before,) = ctx.previous_runs
        facts.extend([job.title == ctx.job.title, ctx.job_id, ctx.worker_id, ctx.run_id, ctx.token, ctx.attempt])
        facts.extend([before.run_id, before.worker_id, before.attempt, before.status, before.reason, before.note])
        facts.extend([ctx.stopping, ctx.lost, 50 < ctx.deadline - time.monotonic() <= 60])
        assert before.error.startswith("ValueError: not yet")

    id = app.enqueue(NewJob("a job", timeout=60 * SECOND)).id
    rota.run_worker(execute, app=app, limit=2)
    first, second = app.claims.runs(id)
    assert facts[:6] == [True, id, second.worker_id, second.id, second.token, 2]
    assert facts[6:12] == [first.id, first.worker_id, 1, "failed", None, None]
    assert facts[12:] == [False, False, True]


def test_a_job_without_a_time_out_has_no_deadline_and_its_first_attempt_no_past(app: App) -> None:
    seen = []
    app.enqueue(NewJob("a job"))
    rota.run_worker(lambda job, ctx: seen.append((ctx.deadline, ctx.previous_runs, ctx.checkpoint)), app=app, limit=1)
    assert seen == [(None, (), None)]


def test_your_own_context_is_there_by_name_and_other_names_are_not(app: App) -> None:
    def execute(job: Job, ctx: Any) -> list[Any]:
        with pytest.raises(AttributeError, match=r"ctx has no 'modle'; of your own context it has: model, retries"):
            _ = ctx.modle
        with pytest.raises(AttributeError):
            ctx.token = 5
        return [ctx.model("hello"), ctx.retries]

    id = app.enqueue(NewJob("a job")).id
    rota.run_worker(execute, app=app, context={"model": str.upper, "retries": 3}, limit=1)
    assert app.jobs.get(id).result == ["HELLO", 3]


def test_its_names_are_those_that_are_promised() -> None:
    promised = "job job_id worker_id run_id token attempt renew_lease log state checkpoint previous_runs progress"
    assert set(promised.split()) | {"deadline", "stopping", "lost", "recovering", "results", "settle_in"} == RESERVED


def test_state_is_fresh_for_each_job(app: App) -> None:
    seen = []

    def execute(job: Job, ctx: Any) -> None:
        ctx.state["count"] = ctx.state.get("count", 0) + 1
        seen.append(ctx.state)

    app.enqueue_many([NewJob("one"), NewJob("two")])
    rota.run_worker(execute, app=app, limit=2)
    assert seen == [{"count": 1}, {"count": 1}]


def test_a_checkpoint_is_durable_when_assigned_and_survives_attempts(app: App) -> None:
    seen = []

    def execute(job: Job, ctx: Any) -> None:
        seen.append(ctx.checkpoint)
        ctx.checkpoint = {"page": ctx.attempt}
        ctx.checkpoint["page"] = 99  # a copy
        assert ctx.checkpoint == App.jobs.fget(app).get(job.id).checkpoint == {"page": ctx.attempt}  # type: ignore[attr-defined]
        if ctx.attempt < 3:
            raise ValueError("again")
        ctx.checkpoint = None

    id = app.enqueue(NewJob("a job")).id
    rota.run_worker(execute, app=app, limit=3)
    assert seen == [None, {"page": 1}, {"page": 2}]
    assert app.jobs.get(id).status == "done" and app.jobs.get(id).checkpoint is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x" * 262_143, "TooLarge: the checkpoint is too large: 262,145 bytes, at most 262,144"),
        ({1, 2}, "BadInput: the checkpoint cannot be written as JSON: Object of type set is not JSON serializable"),
    ],
    ids=["large", "no JSON"],
)
def test_a_checkpoint_that_cannot_be_kept_is_refused_and_the_last_one_stays(
    app: App, value: object, message: str
) -> None:
    def execute(job: Job, ctx: Any) -> None:
        ctx.checkpoint = "good"
        ctx.checkpoint = value

    id = app.enqueue(NewJob("a job", max_attempts=1)).id
    rota.run_worker(execute, app=app, limit=1)
    assert (app.jobs.get(id).error or "").startswith(message)
    assert app.jobs.get(id).checkpoint == "good"


def test_any_thread_of_a_handler_may_use_it(app: App) -> None:
    def execute(job: Job, ctx: Any) -> None:
        together = threading.Barrier(8)

        def use(number: int) -> None:
            together.wait()
            for turn in range(10):
                ctx.checkpoint = [number, turn]
                ctx.renew_lease()

        threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    id = app.enqueue(NewJob("a job")).id
    rota.run_worker(execute, app=app, limit=1)
    assert app.jobs.get(id).status == "done" and app.jobs.get(id).checkpoint[1] == 9
    assert app.claims.runs(id)[0].renewed_count == 80


@pytest.mark.parametrize(
    ("say", "message"),
    [
        (lambda ctx: ctx.progress("many"), "BadInput: progress takes numbers, such as progress(3, 10), not 'many'"),
        (
            lambda ctx: ctx.progress(1, float("nan")),
            "BadInput: progress takes numbers, such as progress(3, 10), not nan",
        ),
        (lambda ctx: ctx.recovering(0), "BadInput: recovering takes a number of seconds, such as 30, not 0"),
    ],
    ids=["text", "nan", "no time"],
)
def test_nonsense_is_refused(app: App, say: Any, message: str) -> None:
    id = app.enqueue(NewJob("a job", max_attempts=1)).id
    rota.run_worker(lambda job, ctx: say(ctx), app=app, limit=1)
    assert app.jobs.get(id).error == message


def test_progress_and_recovering_are_seen_while_the_job_runs(workshop: Workshop) -> None:
    workshop.start(
        """
def execute(job, ctx):
    ctx.progress(3, 10, "pages \\x1b")
    with ctx.recovering(500):
        wait_for("recovered")
    wait_for("go")
rota.run_worker(execute)
""",
        ROTA_HEARTBEAT_INTERVAL="20s",
    )
    id = workshop.add()
    worker = workshop.registered()

    def told() -> Any:
        return workshop.store.workers.get(worker).metadata

    progress = {"done": 3, "total": 10, "note": "pages \x1b"}
    eventually(lambda: told() == {"completed": 0, "busy": id, "progress": progress, "recovering": 120.0})
    workshop.touch("recovered")
    eventually(lambda: told() == {"completed": 0, "busy": id, "progress": progress})
    assert json.loads(workshop.shell.say("worker", "status", worker, "--json"))["metadata"]["progress"] == progress
    workshop.touch("go")
    workshop.ends(id)


def test_what_it_logs_goes_to_stderr_and_cannot_steer_a_terminal(workshop: Workshop) -> None:
    script = workshop.start(
        """
def execute(job, ctx):
    ctx.log("\\x1b[31mred")
    ctx.log(7)
rota.run_worker(execute, limit=1)
"""
    )
    id = workshop.add()
    assert script.ended() == 0
    (run,) = workshop.store.claims.runs(id)
    lines = [line.split(maxsplit=3) for line in script.said.splitlines() if run.id in line]
    assert [words[1:3] for words in lines] == [["run_worker", run.worker_id]] * 3
    assert [words[3].split(maxsplit=1)[1] for words in lines][:2] == ["\N{REPLACEMENT CHARACTER}[31mred", "7"]


def test_what_it_logs_goes_to_the_applications_log_where_there_is_one(workshop: Workshop) -> None:
    script = workshop.start(
        """
import logging
logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
rota.run_worker(lambda job, ctx: ctx.log("hello"), limit=1)
"""
    )
    id = workshop.add()
    assert script.ended() == 0
    (run,) = workshop.store.claims.runs(id)
    assert f"rota.hooks INFO {run.worker_id} {run.id} hello" in script.said.splitlines()


def test_signal_handlers_are_as_before_when_it_returns(app: App) -> None:
    def mine(*_: object) -> None: ...

    before, interrupt = signal.signal(signal.SIGTERM, mine), signal.getsignal(signal.SIGINT)
    try:
        app.enqueue(NewJob("a job"))
        rota.run_worker(lambda job, ctx: None, app=app, limit=1)
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.getsignal(signal.SIGINT) is interrupt
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_coroutine_may_await_the_renewal_or_not(app: App) -> None:
    async def execute(job: Job, ctx: Any) -> str:
        assert await ctx.renew_lease() is None
        ctx.renew_lease()
        return "renewed"

    id = app.enqueue(NewJob("a job")).id
    rota.run_worker(execute, app=app, limit=1)
    assert (app.jobs.get(id).status, app.jobs.get(id).result) == ("done", "renewed")


@pytest.mark.parametrize(
    ("result", "output", "is_told"), [({"a": 1}, {"b": 2}, True), ({"a": 1}, {"a": 1}, False), (None, None, False)]
)
def test_output_of_a_job_that_settled_itself_is_dropped_with_a_word(
    app: App, caplog: pytest.LogCaptureFixture, result: Any, output: Any, is_told: bool
) -> None:
    def execute(job: Job, ctx: Any) -> Any:
        app.claims.settle(app.claims.held(job.id, ctx.worker_id), Done(None if result is None else json.dumps(result)))
        return output

    id = app.enqueue(NewJob("a job")).id
    with caplog.at_level("WARNING", "rota.hooks"):
        rota.run_worker(execute, app=app, limit=1)
    assert (app.jobs.get(id).status, app.jobs.get(id).result) == ("done", result)
    told = f'job {id} was done already, so what execute returned is not kept: {{"b":2}}'
    assert any(told in record.getMessage() for record in caplog.records) == is_told
