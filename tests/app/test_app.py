"""What an application does with `App`."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rota
from rota import App
from rota.core import errors, times
from rota.core.times import DAY
from rota.settings import Settings
from rota.testing import work_off
from tests.support.stores import STORES, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=STORES)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    """An app whose failed jobs come back so late that no test meets them again."""
    app = App(url_of(request.param, tmp_path), Settings(backoff_first=DAY, backoff_most=DAY))
    yield app
    app.close()


def test_an_enqueued_task_runs_with_its_arguments_and_keeps_its_result(app: App) -> None:
    @app.task(queue="tag")
    def tag(path: str, loud: bool = False) -> dict[str, object]:
        return {"path": path, "loud": loud}

    job = tag.enqueue("a.wav", loud=True)
    assert job.get().payload == {"path": "a.wav", "loud": True}
    assert (job.get().queue, job.get().kind, job.get().status) == ("tag", "tag", "ready")
    work_off(app, "tag")
    ended = job.wait(timeout=5)
    assert ended.status == "done"
    assert ended.result == {"path": "a.wav", "loud": True}


def test_a_task_can_be_called_like_the_function_it_is(app: App) -> None:
    @app.task()
    def double(n: int) -> int:
        return 2 * n

    assert double(4) == 8
    assert app.jobs.list() == []


def test_a_payload_written_by_another_program_calls_the_task_too(app: App) -> None:
    seen = []

    @app.task()
    def tag(path: str) -> None:
        seen.append(path)

    app.enqueue(rota.NewJob("by hand", kind="tag", payload={"path": "b.wav"}))
    work_off(app)
    assert seen == ["b.wav"]


def test_what_a_job_should_have_besides_its_arguments_is_said_with_but(app: App) -> None:
    @app.task(queue="tag", max_attempts=7, timeout="90s")
    def tag(path: str) -> None: ...

    job = app.enqueue(tag.job("a.wav").replace(priority=5, key="a")).get()
    assert (job.priority, job.key, job.max_attempts, job.timeout) == (5, "a", 7, 90_000_000)


def test_many_jobs_are_added_at_once_or_not_at_all(app: App) -> None:
    @app.task()
    def tag(path: str) -> None: ...

    ids = [job.id for job in app.enqueue_many(tag.job(str(n)) for n in range(1000))]
    assert ids == sorted(ids)
    assert len(set(ids)) == 1000
    with pytest.raises(errors.NotFound):
        app.enqueue_many([tag.job("x"), tag.job("y").replace(after=[10**9])])
    assert app.queues.list()[0].counts["ready"] == 1000


def test_wrong_arguments_are_refused_when_they_are_enqueued(app: App) -> None:
    @app.task()
    def tag(path: str) -> None: ...

    with pytest.raises(errors.BadInput, match="missing a required argument: 'path'"):
        tag.enqueue()  # type: ignore[call-arg]
    with pytest.raises(errors.BadInput, match="cannot be written as JSON"):
        tag.enqueue(object())  # type: ignore[arg-type]
    assert app.jobs.list() == []


def test_a_parameter_without_a_name_in_a_payload_is_refused(app: App) -> None:
    @app.task()
    def add(*numbers: int) -> int:
        return sum(numbers)

    with pytest.raises(errors.BadInput, match="make it a keyword parameter"):
        add.enqueue(1, 2)


def test_two_tasks_of_one_name_are_refused(app: App) -> None:
    @app.task(name="tag")
    def first() -> None: ...

    with pytest.raises(errors.BadInput, match="already"):
        app.task(name="tag")(first.function)


def test_only_coroutines_run_where_a_worker_has_several_jobs_at_a_time(app: App) -> None:
    app.pool("fetch", concurrency=50)

    def plain() -> None: ...

    async def fetch() -> None: ...

    with pytest.raises(errors.BadInput, match="plain is a plain function, which has its worker for itself, but each"):
        app.task(queue="fetch")(plain)
    with pytest.raises(errors.BadInput, match="plain is a command"):
        app.command(queue="fetch", argv=["true"])(plain)
    assert app.task(queue="fetch")(fetch).is_coroutine
    app.task(queue="tag")(plain)
    with pytest.raises(errors.BadInput, match="queue tag has 2 jobs at a time: declare it for another queue"):
        app.pool("tag", concurrency=2)
    app.pool("tag", concurrency=1)
    assert (app.concurrency("fetch"), app.concurrency("tag"), app.concurrency("other")) == (50, 1, 1)


@pytest.mark.parametrize("wrong", [0, -1, 1001, True, 2.5, "3"])
def test_concurrency_is_a_whole_number_within_bounds(app: App, wrong: int) -> None:
    with pytest.raises(errors.BadInput, match="concurrency is a whole number from 1 to 1000, not"):
        app.pool("fetch", concurrency=wrong)


def test_a_command_takes_its_payload_by_name_and_cannot_be_called(app: App) -> None:
    @app.command(queue="media", argv=["convert", "{payload.path}"], max_attempts=1, timeout="5s")
    def convert(path: str, quality: int = 3) -> None: ...

    job = convert.job("a.wav", quality=9)
    assert (job.kind, job.queue, job.payload) == ("convert", "media", {"path": "a.wav", "quality": 9})
    assert (job.max_attempts, job.timeout) == (1, 5 * times.SECOND)
    with pytest.raises(errors.BadInput, match="convert is a command, which only a worker runs: enqueue it"):
        convert("a.wav")


def test_work_off_runs_coroutines_and_commands_too(app: App) -> None:
    loops = []

    @app.setup(queue="default")
    async def prepare() -> None:
        loops.append(asyncio.get_running_loop())

    @app.task()
    async def double(n: int, ctx: Any) -> dict[str, Any]:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return {"n": 2 * n, "job": ctx.job_id}

    @app.command(argv=["sh", "-c", 'cat; echo "[\\"$1\\"]"', "sh", "{payload.word}"])
    def echo(word: str) -> None: ...

    double.enqueue(4)  # type: ignore[call-arg]
    echo.enqueue(word="a b")
    first, second = work_off(app)
    assert first.result == {"n": 8, "job": first.id}
    assert loops[0] is loops[1]
    assert second.result == ["a b"]


def test_a_failing_task_waits_for_its_retry_and_a_hopeless_one_does_not(app: App) -> None:
    @app.task()
    def fails() -> None:
        raise ValueError("no such file")

    @app.task()
    def hopeless() -> None:
        raise rota.GiveUp("never")

    @app.task()
    def later() -> None:
        raise rota.Snooze("10m", note="the disk is asleep")

    failed, given_up, snoozed = fails.enqueue(), hopeless.enqueue(), later.enqueue()
    work_off(app)
    assert (failed.get().status, failed.get().attempts) == ("scheduled", 1)
    assert "ValueError: no such file" in (failed.get().error or "")
    assert "test_app.py, in fails" in (failed.get().error or "")
    assert (given_up.get().status, given_up.get().attempts) == ("failed", 1)
    assert (snoozed.get().status, snoozed.get().attempts, snoozed.get().note) == ("scheduled", 0, "the disk is asleep")


def test_work_off_follows_dependencies_and_leaves_other_queues(app: App) -> None:
    order = []

    @app.task(queue="tag")
    def step(name: str) -> None:
        order.append(name)

    first = app.enqueue(step.job("first").replace(priority=-1))
    app.enqueue(step.job("second").replace(after=[first.id]))
    other = app.enqueue(step.job("elsewhere").replace(queue="other"))
    assert [job.status for job in work_off(app, "tag")] == ["done", "done"]
    assert order == ["first", "second"]
    assert other.get().status == "ready"
    assert app.workers.list() == []


def test_a_job_of_an_unknown_kind_fails_and_says_which_are_known(app: App) -> None:
    @app.task()
    def tag() -> None: ...

    job = app.enqueue(rota.NewJob("x", kind="nothing"))
    work_off(app)
    assert job.get().status == "failed"
    assert job.get().error == "there is no task 'nothing' in this app; known: tag"


def test_waiting_ends_when_another_thread_settles_the_job(app: App) -> None:
    @app.task()
    def tag() -> int:
        return 7

    job = tag.enqueue()
    other = threading.Thread(target=work_off, args=(app,))
    other.start()
    assert job.wait(timeout=30).result == 7
    other.join()


def test_waiting_too_long_is_an_error_that_names_the_job(app: App) -> None:
    job = app.enqueue(rota.NewJob("x"))
    with pytest.raises(errors.WaitedTooLong, match=rf"job {job.id} \(ready\)"):
        job.wait(timeout=0.01)


def test_a_full_queue_has_its_own_exception(app: App) -> None:
    app.queues.set("default", max_depth=1)
    app.enqueue(rota.NewJob("x"))
    with pytest.raises(errors.QueueFull):
        app.enqueue(rota.NewJob("y"), wait="20ms")


def test_events_tell_what_happens_from_now_on(app: App) -> None:
    before = app.enqueue(rota.NewJob("before"))
    events = app.events(["queue:jobs"])
    after = app.enqueue(rota.NewJob("after"))
    told = next(events)
    assert (told["topic"], told["type"]) == ("queue:jobs", "job_update")
    assert told["job"] == {
        "id": after.id, "path": "after", "status": "ready", "error": None, "results": None,
        "queue": "default", "verb": "add", "was": None,
    }  # fmt: skip
    from_the_start = app.events(["queue:jobs"], after="0")
    assert next(from_the_start)["job"]["id"] == before.id
    assert next(app.events(["queue:status"]))["queue"]["pending"] == 2


def test_every_public_name_is_there_and_importing_rota_loads_none_of_them() -> None:
    for name in dir(rota):
        assert getattr(rota, name) is not None
    with pytest.raises(AttributeError):
        _ = rota.no_such_name  # type: ignore[attr-defined]


def test_there_is_one_exception_for_each_exit_code() -> None:
    codes = {errors.RotaError: 1, errors.BadInput: 2, errors.NotFound: 3, errors.Conflict: 4}
    codes |= {errors.Stale: 5, errors.Refused: 6, errors.UnknownWorker: 7}
    assert {kind: kind.exit_code for kind in codes} == codes


def test_the_application_can_be_closed_and_used_again(app: App) -> None:
    app.enqueue(rota.NewJob("x"))
    app.close()
    assert len(app.jobs.list()) == 1


def test_any_number_of_threads_may_be_the_first_to_use_it(tmp_path: Path) -> None:
    for turn in range(5):
        app = App(f"sqlite:///{tmp_path}/new-{turn}.db")
        threads = [threading.Thread(target=app.enqueue, args=(rota.NewJob("a job"),)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(app.jobs.list()) == 8
        app.close()


@pytest.mark.parametrize("vectorizer", [-1, 2**31, True, "", 1.5])
def test_a_source_whose_vectorizer_is_no_id_and_no_table_is_refused(tmp_path: Path, vectorizer: Any) -> None:
    app = App(str(tmp_path / "rota.db"))
    with pytest.raises(errors.BadInput, match="neither the id of a vectorizer nor the name of its table"):
        app.source(task="tag", vectorizer=vectorizer)


def test_every_error_that_a_caller_can_meet_is_a_public_name() -> None:
    own = {"TakesLong"}  # only a look of the server's that was to be quick meets it, and looks again
    known = {
        name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.RotaError)
    }
    assert known - own == known & set(dir(rota))


def test_a_database_that_an_app_had_to_make_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        app = App(settings=Settings())
        assert app.jobs.list() == []
        app.close()
    assert [record.getMessage() for record in caplog.records] == [f"made a new database at {tmp_path}/.rota/rota.db"], (
        "once, when it was made"
    )


def test_a_task_may_say_what_the_title_shows_of_its_arguments(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(title="Reset a password")
    def reset(secret: str) -> None: ...

    @app.task(title=lambda payload: f"Mail {payload['user']}")
    def mail(user: str, secret: str) -> None: ...

    assert reset.job("hunter2").title == "Reset a password"
    assert mail.job("anna", "hunter2").title == "Mail anna"
    assert mail.job("anna", "hunter2").payload == {"user": "anna", "secret": "hunter2"}
