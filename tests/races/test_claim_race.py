"""Processes race for one job, again and again: one winner each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.settings import Settings
from rota.store.open import open_store
from tests.races.racers import answers, racers, start
from tests.support.stores import rows, url_of
from tests.support.tiers import times
from tests.support.work import add

if TYPE_CHECKING:
    from pathlib import Path

RACES = [("sqlite", 50, times(20, 200)), ("postgres", 8, times(20, 200))]
RACE = """
from rota.core.errors import Conflict
store = open_store(sys.argv[1], Settings())
worker = store.workers.register(f"racer {sys.argv[2]}", every=3600_000_000).id
print("ready", flush=True)
for job in sys.stdin:
    try:
        print(store.claims.claim(int(job), worker).token, flush=True)
    except Conflict:
        print("lost", flush=True)
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("kind", "racing", "rounds"), RACES)
def test_many_processes_race_for_one_job_and_one_wins_each(tmp_path: Path, kind: str, racing: int, rounds: int) -> None:
    url = url_of(kind, tmp_path)
    with open_store(url, Settings(), make=True) as store, racers(racing, RACE, url) as processes:
        tokens, winners = [], set()
        for _ in range(rounds):
            job = add(store)
            start(processes, str(job))
            answered = answers(processes)
            won = [(number, int(answer)) for number, answer in enumerate(answered) if answer != "lost"]
            assert len(won) == 1, f"job {job} has {len(won)} winners"
            found = store.jobs.get(job)
            assert (found.status, found.token) == ("active", won[0][1])
            winners.add(won[0][0])
            tokens.append(won[0][1])
        assert tokens == sorted(set(tokens))
        assert len(winners) > 1, "the same process won every time: that was no race"
        assert rows(store, "SELECT count(*) FROM event WHERE facts LIKE '%\"claim\"%'") == [(rounds,)]
        assert store.database.integrity() == "ok"
