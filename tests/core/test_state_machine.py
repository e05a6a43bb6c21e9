"""The state tables: every state can be reached, final ones absorb, and moves that are not there are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core import claim, health, job, orchestrator, slot, worker
from rota.core.state_machine import ImpossibleMove, allowed, check, diagram

if TYPE_CHECKING:
    from rota.core.state_machine import Moves

TABLES: list[tuple[str, Moves, tuple[str, ...], set[str | None]]] = [
    ("job", job.MOVES, job.STATES, {None}),
    ("claim", claim.MOVES, claim.STATES, {None}),
    ("worker", worker.MOVES, worker.STATES, {None}),
    ("orchestrator", orchestrator.MOVES, orchestrator.STATES, {None}),
    ("slot", slot.MOVES, slot.STATES, {None}),
    ("health", health.MOVES, health.STATES, {None}),
]
each_table = pytest.mark.parametrize(("name", "moves", "states", "start"), TABLES, ids=[table[0] for table in TABLES])


@each_table
def test_every_state_can_be_reached(name: str, moves: Moves, states: tuple[str, ...], start: set[str | None]) -> None:
    reached = set(start)
    while True:
        further = {new for (old, _), targets in moves.items() if old in reached for new in targets} - reached
        if not further:
            break
        reached |= further
    assert reached - {None} == set(states)


@each_table
def test_a_table_names_only_its_own_states(
    name: str, moves: Moves, states: tuple[str, ...], start: set[str | None]
) -> None:
    named = {old for old, _ in moves} | {new for targets in moves.values() for new in targets}
    assert named - {None} <= set(states)


@pytest.mark.parametrize("state", job.FINAL)
def test_a_final_job_moves_by_retry_alone(state: str) -> None:
    assert {verb for old, verb in job.MOVES if old == state} == {job.RETRY}


@pytest.mark.parametrize("state", [state for state in claim.STATES if state != claim.ACTIVE])
def test_an_ended_claim_never_moves_again(state: str) -> None:
    assert not [verb for old, verb in claim.MOVES if old == state]


@pytest.mark.parametrize("state", [worker.STOPPED, worker.DEAD])
def test_a_worker_that_is_gone_comes_back_by_a_heartbeat_alone(state: str) -> None:
    assert [verb for old, verb in worker.MOVES if old == state] == [worker.HEARTBEAT]


def test_a_slot_that_failed_moves_by_reset_alone() -> None:
    assert [verb for old, verb in slot.MOVES if old == slot.FAILED] == [slot.RESET]


def test_the_dead_stay_dead_in_the_opinion_of_their_watcher() -> None:
    assert not [verb for old, verb in health.MOVES if old == health.DEAD]


def test_only_a_healthy_frame_makes_a_worker_healthy() -> None:
    assert {verb for (_, verb), new in health.MOVES.items() if health.HEALTHY in new} == {health.FRAME}


def test_only_a_claim_makes_a_job_active_and_only_from_ready() -> None:
    assert [(old, verb) for (old, verb), new in job.MOVES.items() if job.ACTIVE in new] == [(job.READY, job.CLAIM)]


def test_every_way_a_claim_can_end_ends_the_jobs_activity_too() -> None:
    ends_claim = {verb for old, verb in claim.MOVES if old == claim.ACTIVE}
    assert ends_claim == {verb for old, verb in job.MOVES if old == job.ACTIVE}


def test_each_end_of_a_claim_has_one_meaning() -> None:
    assert all(len(targets) == 1 for targets in claim.MOVES.values())


def test_a_move_that_the_table_has_passes_and_any_other_is_refused() -> None:
    check(job.MOVES, job.READY, job.CLAIM, job.ACTIVE)
    with pytest.raises(ImpossibleMove, match="finish may not lead from ready to done"):
        check(job.MOVES, job.READY, job.FINISH, job.DONE)
    with pytest.raises(ImpossibleMove):
        check(job.MOVES, job.DONE, job.CLAIM, job.ACTIVE)
    assert allowed(job.MOVES, job.DONE, job.CLAIM) == frozenset()


def test_the_diagram_shows_every_move_once_and_one_arrow_between_two_states() -> None:
    first, *arrows = diagram(job.MOVES).splitlines()
    ends = [arrow.partition(": ")[0] for arrow in arrows]
    verbs = [verb for arrow in arrows for verb in arrow.partition(": ")[2].split(", ")]
    assert first == "stateDiagram-v2"
    assert len(ends) == len(set(ends))
    assert len(verbs) == sum(len(targets) for targets in job.MOVES.values())
    assert "    [*] --> ready: add" in arrows and "    active --> ready: fail, snooze, release, expire, die" in arrows


def test_states_split_into_waiting_active_and_final() -> None:
    assert {*job.WAITING, job.ACTIVE, *job.FINAL} == set(job.STATES)
    assert len(job.WAITING) + 1 + len(job.FINAL) == len(job.STATES)
    assert set(worker.LIVE) | {worker.STOPPED, worker.DEAD} == set(worker.STATES)
