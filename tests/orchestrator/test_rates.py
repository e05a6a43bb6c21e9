"""A rate with real crews: reached without a poll, and never exceeded by more than its burst."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.times import SECOND
from tests.support.eventually import eventually
from tests.support.far import Far
from tests.support.stores import rows

if TYPE_CHECKING:
    from pathlib import Path

    from rota.store.store import Store
    from tests.support.crews import Crew

RATE, BURST, JOBS = 200, 20, 300
TRIES = 4
NEVER_POLL = "1h"  # who misses a moment of the rate waits that long


def never_exceeded(store: Store) -> bool:
    """Whether every stretch of time saw at most its share of the rate, and the burst."""
    begun = sorted(at for (at,) in rows(store, "SELECT claimed_at FROM run"))
    assert len(begun) == JOBS
    return all(
        number - first <= (at - begun[first]) * RATE / SECOND + BURST + 1
        for number, at in enumerate(begun)
        for first in range(number)
    )


@pytest.mark.both_stores
@pytest.mark.parametrize("orchestrators", [1, 2])
def test_a_fast_rate_is_worked_off_without_a_poll_and_never_exceeded(crew: Crew, orchestrators: int) -> None:
    crew.env["ROTA_POLL_INTERVAL"] = NEVER_POLL
    crew.app.store.queues.set("tag", rate=f"{RATE}/s")
    crew.start("tag=2")
    for _ in range(orchestrators - 1):
        crew.start_beside(2)
    eventually(lambda: crew.up(2 * orchestrators), within=60)
    crew.done(*(job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(JOBS))))
    assert never_exceeded(crew.app.store)


@pytest.mark.both_stores
@pytest.mark.parametrize("orchestrators", [1, 2])
def test_a_rate_is_reached_within_a_tenth_in_each_second(crew: Crew, orchestrators: int) -> None:
    """A machine that stands still for longer than the burst loses that time: another try is fair, and no collapse."""
    per_second, seconds = 50, 3
    crew.env["ROTA_POLL_INTERVAL"] = NEVER_POLL
    crew.app.store.queues.set("tag", rate=f"{per_second}/s")
    crew.start("tag=2")
    for _ in range(orchestrators - 1):
        crew.start_beside(2)
    eventually(lambda: crew.up(2 * orchestrators), within=60)
    begun: list[list[int]] = []
    for _ in range(TRIES):
        ids = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(per_second * seconds))]
        crew.done(*ids)
        times = [at for (at,) in rows(crew.app.store, f"SELECT claimed_at FROM run WHERE job >= {ids[0]} ORDER BY 1")]
        begun.append([sum(times[0] + n * SECOND <= at < times[0] + (n + 1) * SECOND for at in times) for n in range(4)])
        first, *full, last, rest = begun[-1]
        if all(per_second * 0.9 <= count <= per_second * 1.1 + 1 for count in (first, *full)) and last and not rest:
            return
    raise AssertionError(begun)


def test_a_host_that_reaches_only_the_api_keeps_to_a_fast_rate_too(tmp_path: Path) -> None:
    far = Far(tmp_path)
    try:
        far.app.store.queues.set("tag", rate=f"{RATE}/s")
        far.start("one", ROTA_POLL_INTERVAL=NEVER_POLL)
        eventually(lambda: far.up(2), within=60)
        far.done(*(far.add("tag", n=n) for n in range(JOBS)))
        assert never_exceeded(far.app.store)
    finally:
        far.end()
