"""The judgement of a worker that nobody can see: by its beats, by its lease when it is silent, and with grace."""

from __future__ import annotations

import pytest

from rota.core.times import MINUTE, SECOND
from rota.core.worker import DEAD, IDLE, LATE, PAUSED, Alive, Dead, Holding, Worker, judge

EVERY = 30 * SECOND
BEAT = 1000 * SECOND
TWO_MISSED = BEAT + 2 * EVERY
LEASE_END = BEAT + 30 * MINUTE


def test_without_a_claim_it_lives_until_two_beats_are_missed() -> None:
    assert judge(BEAT, EVERY, None, 0, TWO_MISSED - 1) == Alive(TWO_MISSED)
    verdict = judge(BEAT, EVERY, None, 0, TWO_MISSED)
    assert isinstance(verdict, Dead)
    assert (verdict.reason, verdict.text) == ("heartbeat_timeout", "no heartbeat for 1m, expected every 30s")


def test_with_a_claim_and_a_beat_since_two_missed_beats_end_it() -> None:
    held = Holding(BEAT - SECOND, LEASE_END)
    assert judge(BEAT, EVERY, held, 0, TWO_MISSED - 1) == Alive(TWO_MISSED)
    assert isinstance(judge(BEAT, EVERY, held, 0, TWO_MISSED), Dead)


def test_silent_since_it_claimed_its_lease_alone_decides() -> None:
    held = Holding(BEAT, LEASE_END)
    assert judge(BEAT, EVERY, held, 0, TWO_MISSED) == Alive(LEASE_END)
    assert judge(BEAT, EVERY, held, 0, LEASE_END - 1) == Alive(LEASE_END)
    assert isinstance(judge(BEAT, EVERY, held, 0, LEASE_END), Dead)


def test_a_lease_shorter_than_two_beats_kills_nobody_early() -> None:
    assert judge(BEAT, EVERY, Holding(BEAT, BEAT + SECOND), 0, BEAT + 2 * SECOND) == Alive(TWO_MISSED)


def test_time_before_the_grace_does_not_count() -> None:
    grace_from = BEAT + 10 * MINUTE
    assert judge(BEAT, EVERY, None, grace_from, grace_from + 2 * EVERY - 1) == Alive(grace_from + 2 * EVERY)
    assert isinstance(judge(BEAT, EVERY, None, grace_from, grace_from + 2 * EVERY), Dead)


def test_an_older_grace_changes_nothing() -> None:
    assert judge(BEAT, EVERY, None, BEAT - MINUTE, BEAT) == Alive(TWO_MISSED)


def a_worker(**changes: object) -> Worker:
    worker = Worker(
        id="worker-00000001",
        name="loop",
        hostname="here",
        pid=None,
        status=IDLE,
        desired=None,
        orchestrator=None,
        slot=None,
        queue=None,
        version=None,
        registered_at=0,
        last_heartbeat_at=BEAT,
        heartbeat_interval=EVERY,
        heartbeat_count=0,
        success_count=0,
        error_count=0,
        last_error_at=None,
        last_error_message=None,
        current_job=None,
        metadata_json=None,
    )
    return worker.replace(**changes)


def test_one_that_missed_a_beat_is_shown_late_and_paused_yields_to_late() -> None:
    assert a_worker().shown(BEAT + EVERY, paused=False) == IDLE
    assert a_worker().shown(BEAT + 2 * EVERY, paused=False) == LATE
    assert a_worker().shown(BEAT + 2 * EVERY, paused=True) == LATE


@pytest.mark.parametrize("changes", [{"orchestrator": 1}, {"heartbeat_interval": None}, {"status": DEAD}], ids=repr)
def test_nobody_is_shown_late_who_need_not_beat(changes: dict[str, object]) -> None:
    worker = a_worker(**changes)
    assert worker.shown(BEAT + 10 * EVERY, paused=False) == worker.status


def test_only_an_idle_worker_of_a_paused_queue_is_shown_paused() -> None:
    assert a_worker().shown(BEAT, paused=True) == PAUSED
    assert a_worker(status="busy").shown(BEAT, paused=True) == "busy"


def test_metadata_is_what_the_beat_brought() -> None:
    assert a_worker().metadata == {}
    assert a_worker(metadata_json='{"cpu":1.5}').metadata == {"cpu": 1.5}
