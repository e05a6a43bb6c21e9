"""Coroutines in one worker: at once where its pool says so, each ended by itself, a blocking one named."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done
from rota.core.frames import codec as frames
from rota.core.frames.assignment import RunJob
from rota.worker.channel import Channel
from rota.worker.job_state import JobState
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.driven import Driven

TASKS = '''
import asyncio

@app.setup(queue="crowd")
async def prepare_crowd():
    app.context["lock"] = asyncio.Lock()
    app.context["loop"] = asyncio.get_running_loop()
    note("setup crowd")


@app.task(queue="crowd")
async def fetch(name, ctx):
    """Wait for the test; on the way show that it is in the loop of its setup."""
    assert ctx.loop is asyncio.get_running_loop()
    async with ctx.lock:
        note(f"hold {name}")
    try:
        while not (here / f"go-{name}").exists():
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        note(f"cancelled {name}")
        raise
    ctx.progress(1, 1)
    ctx.checkpoint = name
    return {"name": name, "job": ctx.job_id, "token": ctx.token}


@app.task(queue="crowd")
async def stubborn(name):
    note(f"hold {name}")
    while not (here / f"go-{name}").exists():
        try:
            await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            note(f"ignored {name}")
    return "after all"


@app.task(queue="crowd")
async def fail(how):
    await asyncio.sleep(0)
    if how == "snooze":
        raise rota.Snooze("10m")
    if how == "give up":
        raise rota.GiveUp("no use")
    if how == "exit":
        raise SystemExit(3)
    if how == "cancel":
        raise asyncio.CancelledError
    if how == "interrupt":
        raise KeyboardInterrupt
    raise ValueError("no")


@app.task(queue="crowd")
async def block(seconds):
    await asyncio.sleep(0)
    time.sleep(seconds)
'''
CROWD = TASKS + "app.pool('crowd', concurrency=100)\n"
BOTH = pytest.mark.parametrize("tasks", [TASKS, CROWD], ids=["one by one", "at once"])


def crowd(start: Callable[..., Driven], tasks: str = CROWD, **more: str) -> Driven:
    return start(tasks, queue="crowd", **more).is_up()


def test_a_worker_says_how_many_it_has_in_hand(start: Callable[..., Driven]) -> None:
    hello = start(CROWD, queue="crowd").next(frames.HELLO)
    assert hello["concurrency"] == 100
    assert hello["cancels"] == ["block", "fail", "fetch", "stubborn"]


def test_a_worker_that_runs_functions_loads_neither_a_loop_nor_what_commands_need(start: Callable[..., Driven]) -> None:
    worker = start("""
import sys

@app.task()
def loaded():
    return [name for name in ("asyncio", "rota.worker.command", "rota.worker.coroutines") if name in sys.modules]
""").is_up()
    job = worker.job("loaded")
    worker.run(job)
    (done,) = worker.done(job)
    assert done["result"] == "[]"


def test_many_run_at_once_and_end_in_any_order(start: Callable[..., Driven]) -> None:
    worker = crowd(start)
    jobs = [worker.job("fetch", f'{{"name":"{n}"}}', queue="crowd") for n in range(100)]
    worker.run(*jobs)
    for n in range(100):
        worker.holds(str(n))
    assert worker.ledger().count("setup crowd") == 1
    for n in reversed(range(100)):
        worker.let_go(str(n))
        (done,) = worker.done(jobs[n])
        assert done["result"] == f'{{"name":"{n}","job":{jobs[n]["id"]},"token":{jobs[n]["token"]}}}'


def test_one_by_one_they_take_turns_with_functions(start: Callable[..., Driven]) -> None:
    worker = crowd(start, TASKS)
    jobs = [worker.job("double", '{"n":1}'), worker.job("fetch", '{"name":"a"}', queue="crowd")]
    jobs += [worker.job("double", '{"n":2}'), worker.job("fetch", '{"name":"b"}', queue="crowd")]
    worker.run(*jobs)
    worker.holds("a")
    worker.let_go("a")
    worker.let_go("b")
    assert [done["outcome"] for done in worker.done(*jobs)] == ["done"] * 4


@BOTH
def test_cancelling_one_ends_that_one(start: Callable[..., Driven], tasks: str) -> None:
    worker = crowd(start, tasks)
    first, second = (worker.job("fetch", f'{{"name":"{name}"}}', queue="crowd") for name in "ab")
    worker.run(first, second)
    worker.holds("a")
    worker.send(frames.CANCEL, token=first["token"], reason="deadline")
    (done,) = worker.done(first)
    assert (done["error"], done["reason"], done["again"]) == ("ran past its time-out", "timeout", True)
    worker.holds("b")
    assert "cancelled a" in worker.ledger() and "cancelled b" not in worker.ledger()
    worker.let_go("b")
    assert worker.done(second)[0]["outcome"] == "done"


@BOTH
def test_a_time_out_is_one_even_when_the_coroutine_makes_something_of_it(
    start: Callable[..., Driven], tasks: str
) -> None:
    worker = crowd(start, tasks)
    job = worker.job("stubborn", '{"name":"s"}', queue="crowd")
    worker.run(job)
    worker.holds("s")
    worker.send(frames.CANCEL, token=job["token"], reason="deadline")
    eventually(lambda: "ignored s" in worker.ledger())
    worker.let_go("s")
    assert worker.done(job)[0]["reason"] == "timeout"


@BOTH
@pytest.mark.parametrize(
    ("how", "outcome", "again"),
    [
        ("snooze", "snoozed", None),
        ("give up", "failed", False),
        ("exit", "failed", True),
        ("cancel", "failed", True),
        ("interrupt", "failed", True),
        ("raise", "failed", True),
    ],
)
def test_whatever_a_coroutine_raises_is_an_outcome_and_the_worker_lives(
    start: Callable[..., Driven], tasks: str, how: str, outcome: str, again: bool | None
) -> None:
    worker = crowd(start, tasks)
    job, after = worker.job("fail", f'{{"how":"{how}"}}'), worker.job("fetch", '{"name":"a"}', queue="crowd")
    worker.let_go("a")
    worker.run(job)
    (done,) = worker.done(job)
    assert (done["outcome"], done.get("again")) == (outcome, again)
    worker.run(after)
    assert worker.done(after)[0]["outcome"] == "done"


@BOTH
def test_a_payload_that_does_not_fit_fails_that_job(start: Callable[..., Driven], tasks: str) -> None:
    worker = crowd(start, tasks)
    job = worker.job("fetch", '{"nom":"a"}')
    worker.run(job)
    assert "unexpected keyword argument 'nom'" in worker.done(job)[0]["error"]


def test_a_function_is_refused_where_coroutines_run_at_once(start: Callable[..., Driven]) -> None:
    worker = crowd(start)
    jobs = [worker.job("double", '{"n":1}'), worker.job("gone")]
    worker.run(*jobs)
    first, second = worker.done(*jobs)
    assert (first["error"], first["again"]) == (
        "double is no coroutine, and the pool crowd runs 100 coroutines at once: give its queue a pool of its own",
        False,
    )
    assert (second["outcome"], second["reason"]) == ("released", "kind")
    assert second["note"].startswith("there is no task 'gone' in this app")


@BOTH
def test_a_stop_lets_them_finish_and_stop_now_gives_them_back(start: Callable[..., Driven], tasks: str) -> None:
    worker = crowd(start, tasks)
    job = worker.job("fetch", '{"name":"a"}', queue="crowd")
    worker.run(job)
    worker.holds("a")
    worker.signal(signal.SIGTERM)
    worker.next(frames.HEALTH, status="stopping")
    worker.send(frames.STOP, now=True)
    assert worker.done(job)[0]["outcome"] == "released"
    assert worker.wait() == 0


def test_a_stop_takes_nothing_new_and_waits_for_all(start: Callable[..., Driven]) -> None:
    worker = crowd(start)
    jobs = [worker.job("fetch", f'{{"name":"{name}"}}', queue="crowd") for name in "ab"]
    worker.run(*jobs)
    worker.holds("b")
    worker.send(frames.STOP, now=False)
    worker.next(frames.HEALTH, status="stopping")
    late = worker.job("fetch", '{"name":"late"}', queue="crowd")
    worker.run(late)
    assert worker.next(frames.RETURNED)["tokens"] == [late["token"]]
    for name, job in (("b", jobs[1]), ("a", jobs[0])):
        worker.let_go(name)
        assert worker.done(job)[0]["outcome"] == "done"
    assert worker.wait() == 0


def test_ten_failures_in_a_row_end_the_worker_once_the_others_have_finished(start: Callable[..., Driven]) -> None:
    worker = crowd(start)
    slow = worker.job("fetch", '{"name":"slow"}', queue="crowd")
    worker.run(slow, *(worker.job("fail", '{"how":"raise"}') for _ in range(10)))
    worker.next(frames.HEALTH, status="stopping")
    worker.let_go("slow")
    assert worker.done(slow)[0]["outcome"] == "done"
    assert worker.wait() == 81


@BOTH
def test_one_that_blocks_the_loop_is_named_in_the_log(start: Callable[..., Driven], tasks: str) -> None:
    worker = crowd(start, tasks)
    job = worker.job("block", '{"seconds":2.5}')
    worker.run(job)
    told = worker.next(frames.LOG)
    assert told["message"].startswith(f"block of job {job['id']} has kept the loop from turning for 1.")
    assert "of shop.py, in block" in told["message"]
    assert told["run"] == "run-00000001"
    assert worker.done(job)[0]["outcome"] == "done"
    assert not [frame for frame in worker.past if frame.kind == frames.LOG][1:], "it is said once"


def test_what_is_settled_is_forgotten_in_the_order_in_which_it_was_told() -> None:
    """The third ends first: that it is settled says nothing of the first, which an orphan must tell again."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        state = JobState(Channel(ours), "worker-00000001", "worker:crowd:0")
        state.note_renewal(None)
        state.waiting.extend(RunJob(token, token, "fetch") for token in (1, 2, 3))
        jobs = [state.take() for _ in range(3)]
        for job in (jobs[2], jobs[0], jobs[1]):
            assert job is not None
            state.save_checkpoint(job, "1")
            state.end(job, Done())
        state.forget_settled(3)
        assert [token for token, _ in state.unsettled] == [1, 2]
        assert sorted(state.checkpoints) == [1, 2]
        state.forget_settled(3)
        state.forget_settled(1)
        assert [token for token, _ in state.unsettled] == [2]
