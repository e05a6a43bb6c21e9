"""What a worker's two threads share."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done
from rota.core.frames.assignment import RunJob
from rota.core.orchestrator import END_AFTER
from rota.worker.channel import Channel
from rota.worker.job_state import MOST_UNSETTLED, JobState

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
def state(pipe: Pipe) -> JobState:
    return JobState(Channel(pipe[0]), "worker-00000001", "worker:tag:0")


@pytest.mark.parametrize("why", ["stopping", "is_orphaned"])
def test_nothing_more_is_taken_up_once_it_should_leave(state: JobState, why: str) -> None:
    state.waiting.append(JOB)
    setattr(state, why, True)
    assert state.next_job() is None
    assert not state.running and list(state.waiting) == [JOB]


def test_an_outcome_that_nobody_hears_makes_it_an_orphan_that_still_has_it(state: JobState, pipe: Pipe) -> None:
    state.note_renewal(None)
    state.waiting.append(JOB)
    assert state.next_job() is JOB
    pipe[1].close()
    state.end(JOB, Done())
    assert (state.is_orphaned, state.running, [token for token, _ in state.unsettled]) == (True, {}, [7])


def test_an_orchestrator_that_never_tells_what_it_settled_does_not_fill_the_memory(state: JobState, pipe: Pipe) -> None:
    pipe[1].close()
    for token in range(3 * MOST_UNSETTLED):
        state.end(RunJob(1, token, "tag"), Done())
    assert len(state.unsettled) == MOST_UNSETTLED
    state.forget_settled(3 * MOST_UNSETTLED - 1)
    assert not state.unsettled


def test_a_fence_counts_from_the_last_renewal_and_only_for_a_fenced_job_in_hand(state: JobState) -> None:
    state.note_renewal(5)
    assert not state.is_past_fence(5 + END_AFTER)
    state.running = {7: JOB}
    assert not state.is_past_fence(5 + END_AFTER), "its queue may overlap"
    fenced = RunJob(1, 7, "tag")
    fenced.is_fenced = True
    state.running = {7: fenced}
    assert not state.is_past_fence(4 + END_AFTER)
    assert state.is_past_fence(5 + END_AFTER)
    state.note_renewal(3)
    assert state.is_past_fence(5 + END_AFTER), "an older word changes nothing"
    state.note_renewal(10**18)
    assert not state.is_past_fence(5 + END_AFTER)
    assert state.is_past_fence(state.renewed_at + END_AFTER), "a moment that has not come counts as now"


def test_cancelling_a_job_that_is_no_longer_in_hand_does_nothing(state: JobState) -> None:
    state.cancel(8, "cancel")
    state.running = {7: JOB}
    state.cancel(8, "cancel")
    assert state.running == {7: JOB} and JOB.cancelled is None
