"""How work goes: counted per step from the log's events, whatever order jobs take."""

from __future__ import annotations

from typing import Any

from rota.core.times import MILLISECOND, SECOND
from rota.live.throughput import RATE_OVER, STEP, STEPS, Pace

BEGIN = 1000 * STEP


def move(verb: str, was: str | None, status: str, *ids: int, queue: str = "tag") -> list[Any]:
    return ["job", verb, queue, was, status, list(ids)]


def test_a_job_is_picked_up_run_and_counted_where_it_ended() -> None:
    pace = Pace()
    pace.note(BEGIN, [move("add", None, "ready", 1, 2)])
    pace.note(BEGIN + 100 * MILLISECOND, [move("claim", "ready", "active", 1)])
    pace.note(BEGIN + 300 * MILLISECOND, [move("claim", "ready", "active", 2)])
    pace.note(BEGIN + STEP, [move("finish", "active", "done", 1), move("fail", "active", "scheduled", 2)])
    told = pace.told(BEGIN + 2 * STEP)
    assert (told["finished"][-2:], told["failed"][-2:]) == ([0, 1], [0, 1])
    assert (told["pickup_p50"][-2:], told["pickup_p95"][-2:]) == ([0.3, None], [0.3, None])
    assert (told["run_p50"][-2:], told["run_p95"][-2:]) == ([None, 1.9], [None, 1.9])
    assert told["rates"] == {"tag": round(1 / (RATE_OVER * STEP / SECOND), 3)}
    assert {len(told[name]) for name in told if isinstance(told[name], list)} == {STEPS}


def test_a_job_that_waits_again_is_picked_up_again() -> None:
    pace = Pace()
    pace.note(BEGIN, [move("add", None, "ready", 1)])
    pace.note(BEGIN, [move("claim", "ready", "active", 1)])
    pace.note(BEGIN + SECOND, [move("die", "active", "ready", 1)])
    pace.note(BEGIN + SECOND + 50 * MILLISECOND, [move("claim", "ready", "active", 1)])
    told = pace.told(BEGIN + STEP)
    assert told["pickup_p95"][-1] == 0.05 and told["failed"][-1] == 1
    assert told["run_p50"][-1] is None, "a death tells nothing of how long a run takes"


def test_what_is_over_long_ago_and_what_is_not_over_yet_is_not_told() -> None:
    pace = Pace()
    pace.note(BEGIN, [move("finish", "active", "done", 1)])
    pace.note(BEGIN + STEPS * STEP, [move("finish", "active", "done", 2, 3)])
    assert sum(pace.told(BEGIN + STEPS * STEP)["finished"]) == 1
    assert sum(pace.told(BEGIN + (STEPS + 1) * STEP)["finished"]) == 2
    assert sum(pace.told(BEGIN + 9 * STEPS * STEP)["finished"]) == 0


def test_very_much_is_remembered_only_in_part() -> None:
    pace = Pace()
    many = range(250_000)
    pace.note(BEGIN, [move("add", None, "ready", *many)])
    pace.note(BEGIN + SECOND, [move("claim", "ready", "active", *many), ["queue", "pause", "tag", {}]])
    pace.note(BEGIN + SECOND, [move("finish", "active", "done", *many)])
    told = pace.told(BEGIN + STEP)
    assert told["finished"][-1] == 250_000 and told["pickup_p50"][-1] == 1.0
    assert len(pace._ready) == 0 or len(pace._ready) <= 100_000
    pace.note(BEGIN + SECOND, [move("add", None, "ready", *many)])
    assert len(pace._ready) == 100_000
