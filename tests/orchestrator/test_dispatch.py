"""What a worker is handed besides its job in hand: never so much, or for so long, that others would wait for it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Failed, Returned
from rota.core.frames.assignment import Assignment
from rota.core.times import MILLISECOND
from rota.orchestrator.dispatch import LARGEST_WINDOW, STUCK, idle
from rota.orchestrator.slot import SupervisedSlot
from rota.orchestrator.worker_process import LARGEST_JOB, TOO_LARGE, WorkerProcess
from tests.support.eventually import eventually
from tests.support.shell import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.crews import Crew

NOW = 1_000_000


@pytest.fixture
def child(tmp_path: Path) -> Iterator[WorkerProcess]:
    """A real process; nobody reads what it is handed."""
    made = WorkerProcess(
        "worker:tag:0", "tag", "worker-00000000", environment(ROTA_APP="none:app", HOME=str(tmp_path)), NOW
    )
    yield made
    made.signal(signal.SIGKILL)
    made.reap()
    made.close()


def handouts(count: int, size: int) -> list[Assignment]:
    payload = f'"{"x" * size}"'
    return [
        Assignment(n, n, "worker-00000000", "tag", "tag", "tag", payload, 0, 1, 3, None, None) for n in range(count)
    ]


def room(child: WorkerProcess, at: int) -> int:
    place = SupervisedSlot("worker:tag:0", "tag")
    place.state = "up"
    place.child = child
    return sum(each.room for each in idle([place], at))


def test_a_window_holds_so_many_bytes_and_the_rest_goes_back_unspent(child: WorkerProcess) -> None:
    left = child.hand(handouts(10, LARGEST_WINDOW // 4), NOW, NOW)
    assert [held.job_id for held in child.held] == [0, 1, 2]
    assert [(claim.job_id, why) for claim, why in left] == [(n, Returned()) for n in range(3, 10)]


def test_after_large_jobs_there_is_room_for_a_few_only(child: WorkerProcess) -> None:
    child.usual = MILLISECOND
    assert room(child, NOW) == 60
    child.hand(handouts(1, LARGEST_WINDOW // 4), NOW, NOW)
    assert room(child, NOW) == 2 * 3 - 1


def test_one_job_is_a_window_however_large_but_for_one_that_no_frame_can_hold(child: WorkerProcess) -> None:
    assert child.hand(handouts(1, 2 * LARGEST_WINDOW), NOW, NOW) == []
    ((claim, why),) = child.hand(handouts(1, LARGEST_JOB), NOW, NOW)
    assert claim.job_id == 0 and isinstance(why, Failed) and not why.again
    assert len(child.held) == 1


def test_behind_a_job_that_takes_long_there_is_no_room(child: WorkerProcess) -> None:
    child.usual = MILLISECOND
    child.hand(handouts(1, 1), NOW, NOW)
    assert room(child, NOW + STUCK - 1) > 0
    assert room(child, NOW + STUCK) == 0


@pytest.mark.both_stores
def test_short_jobs_are_taken_back_from_behind_a_long_one_for_good(crew: Crew) -> None:
    crew.start("tag=2")
    crew.done(*(job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(300))))
    long = crew.new("hold", name="long").replace(priority=1)
    holding, *short = crew.app.enqueue_many([long, *(crew.new("tag", n=n) for n in range(1000, 1200))])
    crew.done(*(job.id for job in short))
    assert crew.app.jobs.get(holding.id).status == "active"
    crew.let_go("long")
    crew.done(holding.id)
    assert {crew.app.jobs.get(job.id).attempts for job in short} == {1}


def test_a_job_too_large_to_be_handed_out_again_fails_with_its_reason(crew: Crew) -> None:
    """Each of its parts is within its limit; quoted in one frame they are not."""
    crew.teach("""
@app.task(queue="tag")
def grow(text: str, ctx) -> None:
    ctx.checkpoint = text
    raise ValueError("again")
""")
    crew.env |= {"ROTA_BACKOFF_FIRST": "1ms", "ROTA_BACKOFF_MOST": "1ms"}
    crew.start("tag=1")
    id = crew.add("grow", text='"' * 131_000)
    job = eventually(lambda: (found := crew.app.jobs.get(id)).status == "failed" and found)
    assert job and job.error == TOO_LARGE
    crew.done(crew.add("tag", n=1))
