"""A seed draws the whole plan beforehand."""

from __future__ import annotations

from collections import Counter

import pytest

from rota.core.health import HealthPolicy
from rota.core.orchestrator import LEASE
from rota.core.times import SECOND, parse_duration
from rota.lab.chaos.lab_crew import SETTINGS
from rota.lab.chaos.plan import (
    COMMANDS,
    COROUTINES,
    CRASH,
    CUT,
    FATAL,
    FREEZE,
    FREEZE_CREW,
    FUNCTIONS,
    HANG,
    HOLD,
    HTTP,
    KILL_API,
    KILL_BUSY,
    KILL_ORCHESTRATOR,
    LONGEST_FREEZE,
    LOOPS,
    OPERATOR_FAULTS,
    POISON,
    REMOTE,
    SOURCED,
    WORKERS,
    Options,
    draw,
)


def test_a_seed_draws_the_same_plan_again_and_another_seed_another() -> None:
    assert draw(Options(7)) == draw(Options(7))
    assert draw(Options(7)) != draw(Options(8))


@pytest.mark.parametrize("seed", range(20))
def test_every_job_is_offered_once_and_waits_only_for_jobs_of_earlier_offers(seed: int) -> None:
    plan, known = draw(Options(seed, jobs=500)), set[int]()
    for offer in sorted(plan.offers, key=lambda offer: offer.at):
        assert {number for job in offer.jobs for number in job.after} <= known
        known |= {job.number for job in offer.jobs}
    assert sum(len(offer.jobs) for offer in plan.offers) == 500 and known == set(range(500))


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_of_fault_is_drawn_and_some_jobs_are_poison_with_a_job_that_waits_for_them(seed: int) -> None:
    options = Options(seed, jobs=600, minutes=0.5)
    plan = draw(options.replace(faults=len(options.kinds)))
    assert Counter(fault.kind for fault in plan.faults) == Counter(options.kinds)
    poison = {job.number for job in plan.jobs.values() if job.kind == POISON}
    assert 1 <= len(poison) <= 5
    assert any(set(job.after) & poison for job in plan.jobs.values())


def test_as_many_faults_are_drawn_as_asked_for() -> None:
    assert len(draw(Options(1, faults=0)).faults) == 0
    assert len(draw(Options(1, faults=3)).faults) == 3
    assert len(draw(Options(1, minutes=2)).faults) == 80 + 2


def test_in_every_full_minute_a_crew_is_frozen_for_longer_than_its_lease() -> None:
    faults = [fault for fault in draw(Options(1, minutes=3.5)).faults if fault.kind == FREEZE_CREW]
    assert len(faults) == 3 and all(LEASE < fault.lasts <= LEASE + 4 * SECOND for fault in faults)
    assert FREEZE_CREW not in {fault.kind for fault in draw(Options(1, minutes=0.9)).faults}


def test_only_faults_that_are_possible_are_drawn() -> None:
    file, server, own = Options(1), Options(1, store="postgres"), Options(1, store="postgres", own_server=True)
    assert HOLD in file.kinds and not {CUT, CRASH} & {*file.kinds}
    assert CUT in server.kinds and not {HOLD, CRASH} & {*server.kinds}
    assert {CUT, CRASH} <= {*own.kinds} and HOLD not in own.kinds
    assert KILL_API in file.kinds and KILL_API not in Options(1, others=False).kinds
    assert {*OPERATOR_FAULTS, *FATAL, KILL_ORCHESTRATOR} <= {*file.kinds} & {*own.kinds}


def test_jobs_are_drawn_for_every_kind_of_worker_and_each_is_served() -> None:
    options = Options(1, jobs=600)
    queues = Counter(job.queue for job in draw(options).jobs.values())
    assert queues[FUNCTIONS] > queues[COROUTINES] > queues[COMMANDS] > 20 < queues[REMOTE]
    assert queues[LOOPS] > 5 and options.loops == 1
    assert options.crews == {
        "main": {FUNCTIONS: 4, COROUTINES: 2, COMMANDS: 2, SOURCED: 1},
        "beside": {FUNCTIONS: 1},
        "far": {REMOTE: 1},
    }
    assert set(queues) | {SOURCED} == {LOOPS, *(queue for pools in options.crews.values() for queue in pools)}


def test_over_http_all_crews_are_behind_the_api_and_alone_there_is_one() -> None:
    assert Options(1, over=HTTP).behind_api == ("main", "far") and Options(1).behind_api == ("far",)
    alone = Options(1, others=False)
    assert list(alone.crews) == ["main"] and alone.loops == 0 and alone.behind_api == ()
    assert {job.queue for job in draw(alone).jobs.values()} == {FUNCTIONS, COROUTINES, COMMANDS}


def test_faults_are_drawn_for_every_kind_of_worker_but_no_loop_hangs() -> None:
    faults = draw(Options(1, minutes=60)).faults
    assert {fault.queue for fault in faults if fault.kind == KILL_BUSY} == set(WORKERS)
    assert {fault.queue for fault in faults if fault.kind == HANG} == {*WORKERS} - {LOOPS}


def test_a_plan_may_have_a_single_job() -> None:
    assert len(draw(Options(1, jobs=1)).jobs) == 1


def test_a_freeze_is_too_short_for_a_worker_to_be_suspected() -> None:
    silent, frame = (parse_duration(SETTINGS[f"ROTA_{name}_INTERVAL"]) for name in ("SILENT", "FRAME"))
    assert LONGEST_FREEZE + 2 * frame < HealthPolicy().misses * silent
    frozen = [fault.lasts for fault in draw(Options(1, minutes=60)).faults if fault.kind == FREEZE]
    assert frozen and max(frozen) <= LONGEST_FREEZE
