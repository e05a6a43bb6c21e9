"""The loops in `loops/` run as they stand: they are the contract with everybody who has written one like them."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.yard import Yard
from tests.support.eventually import eventually
from tests.support.stores import STORES, exports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    MakeYard = Callable[..., Yard]

LOOPS = {"minimal": 1, "capture": 1, "parallel": 3}
every_loop = pytest.mark.parametrize("loop", LOOPS)
# Two beats are over long before the slow job is; 1.5 s of work against 0.4 s.
QUICK_BEATS = {"ROTA_HEARTBEAT_INTERVAL": "200ms"}
NOTHING_READY = 6


@pytest.fixture(params=STORES)
def yard_with(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeYard]:
    made: list[Yard] = []

    def make(**environment: str) -> Yard:
        made.append(Yard(tmp_path, **exports(request.param, tmp_path), **environment))
        return made[-1]

    yield make
    for yard in made:
        yard.close()


def all_done_under_watch(yard: Yard, jobs: list[int]) -> bool:
    """Whether all are done; asked while a judge of the silent is at work."""
    yard.rota("reconcile")
    return all(job["status"] == "done" for job in yard.rota("list") if job["id"] in jobs)


@every_loop
def test_every_job_is_done_once_though_one_outlasts_two_beats_and_no_call_fails(yard_with: MakeYard, loop: str) -> None:
    yard = yard_with(**QUICK_BEATS)
    jobs = yard.add("quick", "slow", "quick", "quick")
    yard.start(loop)
    eventually(lambda: all_done_under_watch(yard, jobs), within=60, every=0.5)
    eventually(lambda: len(yard.calls("claim:release")) == len(jobs) and yard.calls("claim null"))

    assert sorted(yard.starts()) == jobs == sorted(yard.ends())
    for job in jobs:
        assert [run["status"] for run in yard.rota("runs", str(job))] == ["completed"]
    for code, words in yard.calls():
        # Only losing a race or finding nothing is no failure.
        allowed = {NOTHING_READY} if words.startswith("claim null") else {0, 4} if words.startswith("claim ") else {0}
        assert code in allowed, words


@every_loop
def test_sigterm_lets_the_job_in_hand_end_and_deregisters(yard_with: MakeYard, loop: str) -> None:
    yard = yard_with()
    jobs = yard.add(*["slow"] * LOOPS[loop])
    process = yard.start(loop)
    eventually(lambda: sorted(yard.starts()) == jobs)
    yard.terminate(process)

    assert set(yard.workers().values()) == {"stopped"}
    assert len(yard.workers()) == LOOPS[loop]
    assert [yard.status(job) for job in jobs] == ["done"] * len(jobs)


@pytest.mark.both_stores
def test_sigterm_to_a_loop_and_its_model_gives_the_job_back(yard_with: MakeYard) -> None:
    yard = yard_with(SLOW="600")
    (job,) = yard.add("slow")
    process = yard.start("minimal")
    eventually(yard.starts)
    os.killpg(process.pid, signal.SIGTERM)

    assert process.wait(30) == 0
    assert yard.status(job) == "ready"
    assert yard.rota("show", str(job))["attempts"] == 0
    assert yard.workers() == {"my-worker": "stopped"}


@every_loop
def test_an_empty_queue_does_not_spin_and_sigterm_deregisters_who_waits(yard_with: MakeYard, loop: str) -> None:
    yard, loops = yard_with(), LOOPS[loop]
    process = yard.start(loop)
    eventually(lambda: len(yard.calls("claim null")) >= loops)
    before, started = len(yard.calls()), time.monotonic()
    eventually(lambda: len(yard.calls("claim null")) >= 2 * loops)

    assert time.monotonic() - started > 3, "each turn waits for work for up to 5 s"
    assert len(yard.calls()) - before <= 5 * loops, "a turn is a beat, a look and a wait"
    assert {code for code, _ in yard.calls("claim null")} == {NOTHING_READY}

    # A bash that is signalled while it begins or ends a `$(...)` may hang: that is not what is tried here.
    eventually(lambda: yard.waits_for_work(process))
    yard.terminate(process)
    assert list(yard.workers().values()) == ["stopped"] * loops


def test_a_waiting_loop_takes_a_new_job_without_waiting_to_the_end(yard_with: MakeYard) -> None:
    yard = yard_with()
    yard.start("minimal")
    eventually(lambda: len(yard.calls("ready")) == 1)
    (job,) = yard.add("quick")
    eventually(lambda: yard.status(job) == "done")

    assert len(yard.calls("claim null")) == 1


def test_the_capture_loop_keeps_what_each_run_printed(yard_with: MakeYard) -> None:
    yard = yard_with()
    yard.add("quick", "quick")
    yard.start("capture")
    eventually(lambda: len(yard.calls("claim:release")) == 2)
    captured = sorted((yard.folder / ".tx/runs").glob("run-*.jsonl"))

    assert [file.read_text() for file in captured] == ['{"type":"result"}\n'] * 2
