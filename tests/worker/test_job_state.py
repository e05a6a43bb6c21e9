"""What a worker's two threads share."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done
from rota.core.frames.assignment import RunJob
from rota.worker.job_state import FENCE, MOST_UNSETTLED, Life
from rota.worker.reporter import Reporter

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB = RunJob(1, 7, "tag")


Pipe = tuple[socket.socket, socket.socket]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def life(pipe: Pipe) -> Life:
    return Life(Reporter(pipe[0]), "worker-00000001", "worker:tag:0")


@pytest.mark.parametrize("why", ["stopping", "orphaned"])
def test_nothing_more_is_taken_up_once_it_should_leave(life: Life, why: str) -> None:
    life.waiting.append(JOB)
    setattr(life, why, True)
    assert life.next() is None
    assert not life.in_hand and list(life.waiting) == [JOB]


def test_an_outcome_that_nobody_hears_makes_it_an_orphan_that_still_has_it(life: Life, pipe: Pipe) -> None:
    life.renewed(None)
    life.waiting.append(JOB)
    assert life.next() is JOB
    pipe[1].close()
    life.end(JOB, Done())
    assert (life.orphaned, life.in_hand, [token for token, _ in life.unsettled]) == (True, {}, [7])


def test_an_orchestrator_that_never_tells_what_it_settled_does_not_fill_the_memory(life: Life, pipe: Pipe) -> None:
    pipe[1].close()
    for token in range(3 * MOST_UNSETTLED):
        life.end(RunJob(1, token, "tag"), Done())
    assert len(life.unsettled) == MOST_UNSETTLED
    life.forget(3 * MOST_UNSETTLED - 1)
    assert not life.unsettled


def test_a_fence_counts_from_the_last_renewal_and_only_for_a_fenced_job_in_hand(life: Life) -> None:
    life.renewed(5)
    assert not life.is_past_its_fence(5 + FENCE)
    life.in_hand = {7: JOB}
    assert not life.is_past_its_fence(5 + FENCE), "its queue may overlap"
    fenced = RunJob(1, 7, "tag")
    fenced.is_fenced = True
    life.in_hand = {7: fenced}
    assert not life.is_past_its_fence(4 + FENCE)
    assert life.is_past_its_fence(5 + FENCE)
    life.renewed(3)
    assert life.is_past_its_fence(5 + FENCE), "an older word changes nothing"
    life.renewed(10**18)
    assert not life.is_past_its_fence(5 + FENCE)
    assert life.is_past_its_fence(life.renewed_at + FENCE), "a moment that has not come counts as now"


def test_cancelling_a_job_that_is_no_longer_in_hand_does_nothing(life: Life) -> None:
    life.cancel(8, "cancel")
    life.in_hand = {7: JOB}
    life.cancel(8, "cancel")
    assert life.in_hand == {7: JOB} and JOB.cancelled is None
