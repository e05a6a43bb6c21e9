"""Schedules with real crews: declared by the app, fired on time, each time once however many orchestrators look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.times import SECOND
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

pytestmark = pytest.mark.both_stores

TICK = """
@app.task(queue="tag", cron="* * * * * *")
def tick(ctx):
    note(f"tick {ctx.job.scheduled_for.isoformat()}")
"""
LATER = """
@app.task(queue="tag", cron="0 0 1 1 *", timezone="Europe/Berlin", missed="skip", priority=4)
def yearly():
    note("yearly")
"""


def ticks(crew: Crew) -> list[str]:
    return [line for line in crew.ledger() if line.startswith("tick ")]


def test_what_the_app_declares_runs_on_time_and_each_time_once_though_two_crews_look(crew: Crew) -> None:
    crew.teach(TICK)
    crew.start("tag=1")
    crew.start_beside()
    eventually(lambda: len(ticks(crew)) >= 4, within=30)
    crew.app.store.schedules.pause("tick")
    crew.stop()
    found, jobs = ticks(crew), crew.app.jobs.list()
    assert len(set(found)) == len(found), "a time ran twice"
    for job in jobs:  # the store's clock and the wall's, which is set right now and then, are not quite one
        assert job.scheduled_for is not None and -SECOND < job.created_at - job.scheduled_for < 10 * SECOND
    on_time = [job for job in jobs if job.scheduled_for is not None and job.created_at - job.scheduled_for < SECOND]
    assert len(on_time) >= 3, "nobody woke when it was due"
    assert len({job.scheduled_for for job in jobs}) == len(jobs)


def test_a_schedule_follows_the_code_of_the_next_worker(crew: Crew) -> None:
    crew.teach(LATER)
    crew.start("tag=1")
    schedules = crew.app.store.schedules
    eventually(lambda: [each.name for each in schedules.list()] == ["yearly"])
    found = schedules.get("yearly")
    assert (found.declared, found.queue, found.kind, found.priority) == (1, "tag", "yearly", 4)
    assert (found.timezone, found.missed) == ("Europe/Berlin", "skip")
    crew.stop()
    shop = crew.folder / "shop.py"
    shop.write_text(shop.read_text().replace("0 0 1 1 *", "30 6 * * *"))
    crew.start("tag=1")
    eventually(lambda: schedules.get("yearly").cron == "30 6 * * *")


def test_one_that_is_added_by_hand_wakes_a_crew_that_had_nothing_to_wait_for(crew: Crew) -> None:
    crew.start("tag=1")
    eventually(crew.app.workers.list)
    crew.call(
        "schedule", "add", "now", "--cron", "* * * * * *", "--queue", "tag", "--kind", "tag", "--payload", '{"n": 7}'
    )
    eventually(lambda: "7" in crew.ledger(), within=10)
    crew.call("schedule", "remove", "now")


def test_a_missing_crew_is_made_up_for_once(crew: Crew) -> None:
    crew.call(
        "schedule", "add", "now", "--cron", "* * * * * *", "--queue", "tag", "--kind", "tag", "--payload", '{"n": 7}'
    )
    first = crew.app.store.schedules.get("now").next_at
    assert first is not None
    eventually(lambda: crew.app.store.database.wall() > first + 3 * SECOND, within=10)
    crew.call("ready")
    (job,) = crew.app.jobs.list()
    assert job.scheduled_for is not None and job.scheduled_for > first
