"""How work goes: counted per step from the log's events, whatever order jobs take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.event import Event, JobMoved, QueueChanged
from rota.core.times import MILLISECOND, SECOND
from rota.live.throughput import RATE_OVER, STEP, STEPS, Throughput

if TYPE_CHECKING:
    from rota.core.event import Fact
    from rota.core.times import Instant

BEGIN = 1000 * STEP


def move(verb: str, was: str | None, status: str, *ids: int, queue: str = "tag") -> JobMoved:
    return JobMoved(verb, queue, was, status, list(ids))


def event(at: Instant, *facts: Fact) -> Event:
    return Event("1", at, "tester", list(facts))


def test_a_job_is_picked_up_run_and_counted_where_it_ended() -> None:
    throughput = Throughput()
    throughput.note(event(BEGIN, move("add", None, "ready", 1, 2)))
    throughput.note(event(BEGIN + 100 * MILLISECOND, move("claim", "ready", "active", 1)))
    throughput.note(event(BEGIN + 300 * MILLISECOND, move("claim", "ready", "active", 2)))
    throughput.note(event(BEGIN + STEP, move("finish", "active", "done", 1), move("fail", "active", "scheduled", 2)))
    document = throughput.document(BEGIN + 2 * STEP)
    assert (document["finished"][-2:], document["failed"][-2:]) == ([0, 1], [0, 1])
    assert (document["pickup_p50"][-2:], document["pickup_p95"][-2:]) == ([0.3, None], [0.3, None])
    assert (document["run_p50"][-2:], document["run_p95"][-2:]) == ([None, 1.9], [None, 1.9])
    assert document["rates"] == {"tag": round(1 / (RATE_OVER * STEP / SECOND), 3)}
    assert {len(document[name]) for name in document if isinstance(document[name], list)} == {STEPS}


def test_a_job_that_waits_again_is_picked_up_again() -> None:
    throughput = Throughput()
    throughput.note(event(BEGIN, move("add", None, "ready", 1)))
    throughput.note(event(BEGIN, move("claim", "ready", "active", 1)))
    throughput.note(event(BEGIN + SECOND, move("die", "active", "ready", 1)))
    throughput.note(event(BEGIN + SECOND + 50 * MILLISECOND, move("claim", "ready", "active", 1)))
    document = throughput.document(BEGIN + STEP)
    assert document["pickup_p95"][-1] == 0.05 and document["failed"][-1] == 1
    assert document["run_p50"][-1] is None, "a death tells nothing of how long a run takes"


def test_what_is_over_long_ago_and_what_is_not_over_yet_is_not_document() -> None:
    throughput = Throughput()
    throughput.note(event(BEGIN, move("finish", "active", "done", 1)))
    throughput.note(event(BEGIN + STEPS * STEP, move("finish", "active", "done", 2, 3)))
    assert sum(throughput.document(BEGIN + STEPS * STEP)["finished"]) == 1
    assert sum(throughput.document(BEGIN + (STEPS + 1) * STEP)["finished"]) == 2
    assert sum(throughput.document(BEGIN + 9 * STEPS * STEP)["finished"]) == 0


def test_very_much_is_remembered_only_in_part() -> None:
    throughput = Throughput()
    many = range(250_000)
    throughput.note(event(BEGIN, move("add", None, "ready", *many)))
    throughput.note(event(BEGIN + SECOND, move("claim", "ready", "active", *many), QueueChanged("pause", "tag", {})))
    throughput.note(event(BEGIN + SECOND, move("finish", "active", "done", *many)))
    document = throughput.document(BEGIN + STEP)
    assert document["finished"][-1] == 250_000 and document["pickup_p50"][-1] == 1.0
    assert len(throughput._ready) == 0 or len(throughput._ready) <= 100_000
    throughput.note(event(BEGIN + SECOND, move("add", None, "ready", *many)))
    assert len(throughput._ready) == 100_000
