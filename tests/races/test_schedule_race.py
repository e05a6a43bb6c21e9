"""Processes look at the same clock at the same moment: each time of a schedule is fired once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.schedule import NewSchedule
from rota.settings import Settings
from rota.store.open import open_store
from tests.races.racers import answers, racers, start
from tests.support.stores import rows, url_of

if TYPE_CHECKING:
    from pathlib import Path

RACES = [("sqlite", 8, 40), ("postgres", 8, 40)]
RACE = """
store = open_store(sys.argv[1], Settings())
print("ready", flush=True)
for _ in sys.stdin:
    store.tick()
    print("tended", flush=True)
"""
SECONDS_AGO = "UPDATE schedule SET next_at = next_at - 1000000 - (next_at - :wall)"


@pytest.mark.parametrize(("kind", "racing", "rounds"), RACES)
def test_many_processes_see_a_schedule_fall_due_and_one_fires_it(
    tmp_path: Path, kind: str, racing: int, rounds: int
) -> None:
    url = url_of(kind, tmp_path)
    with open_store(url, Settings(), make=True) as store, racers(racing, RACE, url) as processes:
        for name in ("one", "two", "three"):
            store.schedules.add(NewSchedule(name, "0 0 1 1 *"))
        for turn in range(1, rounds + 1):
            rows(store, SECONDS_AGO, wall=store.database.wall())
            start(processes, "look")
            assert answers(processes) == ["tended"] * racing
            store.tick()  # what was in another's hands for a moment is nobody's now
            assert rows(store, "SELECT title, count(*) FROM job GROUP BY title ORDER BY title") == [
                (name, turn) for name in ("one", "three", "two")
            ]
        counted = [(each.name, each.fired_count) for each in store.schedules.list()]
        assert counted == [("one", rounds), ("three", rounds), ("two", rounds)]
        actors = rows(store, "SELECT DISTINCT actor FROM event WHERE facts LIKE '%\"fire\"%'")
        assert actors, "someone fired"
        assert store.database.integrity() == "ok"
