"""`rota.testing`: a handler on trial, a queue worked off, time that passes when told to, and the pytest plugin."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import rota
from rota import App
from rota.core.claim import Snoozed
from rota.testing import Clock, run, temporary, work_off

if TYPE_CHECKING:
    from pathlib import Path

    from rota.worker.context import Context

pytest_plugins = ["pytester"]


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(f"sqlite:///{tmp_path}/jobs.db", context={"model": "small"})


def test_a_trial_gives_result_logs_progress_and_checkpoint_and_touches_no_store(app: App, tmp_path: Path) -> None:
    @app.task(queue="tag", max_attempts=4)
    def tag(path: str, ctx: Context) -> dict[str, object]:
        ctx.log(f"reading {path}")
        ctx.progress(1, 2, "half")
        ctx.progress(2, 2)
        ctx.checkpoint = {"at": 7}
        return {"model": ctx.model, "attempt": ctx.attempt, "most": ctx.job.max_attempts, "queue": ctx.job.queue}

    ran = run(tag, "a.wav")  # type: ignore[call-arg]
    assert ran.result == {"model": "small", "attempt": 1, "most": 4, "queue": "tag"}
    assert (ran.logs, ran.progress) == (["reading a.wav"], [(1, 2, "half"), (2, 2, None)])
    assert ran.checkpoint == {"at": 7} and ran.error is None
    assert not (tmp_path / "jobs.db").exists()


def test_the_next_attempt_begins_with_the_checkpoint_and_knows_what_went_before(app: App) -> None:
    @app.task()
    def climb(ctx: Context) -> list[object]:
        if ctx.attempt < 3:
            ctx.checkpoint = (ctx.checkpoint or 0) + 1
            raise ValueError(f"slipped at {ctx.checkpoint}")
        return [
            ctx.checkpoint,
            [run.error for run in ctx.previous_runs],
            len({run.run_id for run in ctx.previous_runs}),
        ]

    first = run(climb)  # type: ignore[call-arg]
    assert "slipped at 1" in (first.error or "") and first.checkpoint == 1
    with pytest.raises(AssertionError, match="slipped at 1"):
        print(first.result)
    checkpoint, errors, runs = first.again().again().result
    assert (checkpoint, runs, len(errors)) == (2, 2, 2) and "slipped at 2" in errors[1]


def test_coroutines_commands_and_snoozes_are_tried_too(app: App) -> None:
    @app.task(queue="calm")
    async def double(n: int) -> int:
        return 2 * n

    @app.command(queue="tools", argv=["sh", "-c", "echo $1; exit $2", "x", "{payload.said}", "{payload.code}"])
    def tool(said: str, code: int) -> None: ...

    @app.task()
    def later() -> None:
        raise rota.Snooze("10m", "asleep")

    assert run(double, 4).result == 8
    assert run(tool, '{"a": 1}', 0).result == {"a": 1}
    assert "exit code 3" in (run(tool, "no", 3).error or "")
    assert isinstance(run(later).outcome, Snoozed) and run(later).again().outcome == run(later).outcome


def test_what_json_cannot_hold_is_refused_as_it_would_be(app: App) -> None:
    @app.task()
    def odd() -> object:
        return object()

    assert "JSON" in (run(odd).error or "")
    with pytest.raises(rota.BadInput, match="cannot be called so"):
        run(odd, 1)  # type: ignore[call-arg]


def test_an_app_uses_a_temporary_store_and_then_its_own_again(app: App, tmp_path: Path) -> None:
    @app.task()
    def one() -> int:
        return 1

    with temporary(app, f"sqlite:///{tmp_path}/other.db") as clock:
        one.enqueue()
        before = app.store.now()
        clock.forward("1h")
        assert app.store.now() - before == 3600 * 1_000_000
        assert [job.status for job in work_off(app)] == ["done"]
    assert app.jobs.list() == [] and (tmp_path / "jobs.db").exists()
    app.close()


def test_time_passes_when_it_is_told_to_and_schedules_fall_due(app: App, tmp_path: Path) -> None:
    ticks = []

    @app.task(cron="30 2 * * *", timezone="Europe/Berlin", missed="all")
    def nightly(ctx: Context) -> None:
        ticks.append(ctx.job.scheduled_for)

    with temporary(app, f"sqlite:///{tmp_path}/other.db", Clock("2026-03-28T12:00Z")) as clock:
        assert work_off(app) == []
        clock.forward_to("2026-03-30T12:00Z")
        assert [job.title for job in work_off(app)] == ["nightly", "nightly"]
        with pytest.raises(rota.BadInput, match="only goes forward"):
            clock.forward_to("2026-03-30T11:00Z")
        assert str(clock).startswith("2026-03-30T12:00")
    assert ticks == [datetime(2026, 3, 29, 1, 0, tzinfo=UTC), datetime(2026, 3, 30, 0, 30, tzinfo=UTC)]


def test_a_failed_job_is_tried_again_once_its_time_has_passed(app: App, tmp_path: Path) -> None:
    @app.task(max_attempts=2)
    def flaky(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return ctx.attempt

    with temporary(app, f"sqlite:///{tmp_path}/other.db") as clock:
        job = flaky.enqueue()  # type: ignore[call-arg]
        assert [ended.status for ended in work_off(app)] == ["scheduled"]
        clock.forward("10m")
        assert [ended.status for ended in work_off(app)] == ["done"] and job.get().result == 2


SHOP = """
import rota

app = rota.App("sqlite:///never.db")


@app.task(queue="tag")
def tag(path, ctx):
    return path.upper()


@app.task(cron="0 * * * *")
def hourly():
    return "on the hour"
"""
TESTS = """
from rota.testing import run, work_off
import shop


def test_one(rota_app, rota_clock):
    assert rota_app is shop.app
    job = shop.tag.enqueue("a.wav")
    work_off(rota_app)
    assert job.get().result == "A.WAV"
    rota_clock.forward("1h")
    assert [job.result for job in work_off(rota_app)] == ["on the hour"]


def test_two(rota_app):
    assert rota_app.jobs.list() == []
    assert run(shop.tag, "b").result == "B"
"""


def test_the_plugin_gives_the_named_app_an_empty_store_in_each_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(shop=SHOP, test_shop=TESTS)
    pytester.makeini("[pytest]\nrota_app = shop:app\npythonpath = .\nfilterwarnings = error")
    pytester.runpytest_subprocess().assert_outcomes(passed=2)
    assert not (pytester.path / "never.db").exists()


def test_without_a_named_app_the_test_makes_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        from rota.testing import work_off

        def test_new(rota_app):
            @rota_app.task()
            def one():
                return 1

            one.enqueue()
            assert [job.result for job in work_off(rota_app)] == [1]
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_name_that_is_none_is_said_in_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_new(rota_app): pass")
    pytester.makeini("[pytest]\nrota_app = nowhere:app")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*BadInput: there is no module 'nowhere'*"])


@pytest.mark.parametrize(
    ("code", "forbidden"),
    [
        ("rota.pytest_plugin", {"rota.app", "rota.testing", "rota.store.store"}),
        (
            "rota.app, rota.cli.main, rota.orchestrator.main, rota.worker.runtime, rota.api.app",
            {"rota.testing", "pytest"},
        ),
    ],
)
def test_who_does_not_ask_for_it_does_not_load_it(code: str, forbidden: set[str]) -> None:
    text = f"import {code}, sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split()
    assert code.partition(",")[0] in found and not forbidden & set(found)
