"""Claims that are settled, cancelled and expired at the same instant end once; a key met at once is one job."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rota.settings import Settings
from rota.store.open import open_store
from tests.races.racers import answers, racers, start
from tests.support.eventually import eventually
from tests.support.stores import rows, url_of
from tests.support.tiers import times
from tests.support.work import Crew, add_many

if TYPE_CHECKING:
    from pathlib import Path

    from rota.store.store import Store

KINDS = ["sqlite", "postgres"]
ROUNDS, JOBS = {"sqlite": times(16, 100), "postgres": times(8, 100)}, 100
# Who settles begins at the first, who cancels at the last, and leases run out from the first on: all three meet. How
# soon, and how fast, changes from turn to turn, so that each of them is the first somewhere on any machine.
PACES = ((0, 500), (0, 4000), (20_000, 1000), (100_000, 10_000))
RACE = """
import json
from rota.core.claim import Claim, Done
from rota.core.errors import Conflict, Stale
store = open_store(sys.argv[1], Settings())
verb = ("settle", "cancel", "expire")[int(sys.argv[2])]
def attempt(id, token, worker):
    try:
        if verb == "settle":
            store.claims.settle(Claim(id, token, worker, 0, None), Done())
        elif verb == "cancel":
            store.jobs.cancel(id)
        else:
            store.tick()
    except (Conflict, Stale):
        return False
    return verb != "expire"
print("ready", flush=True)
for line in sys.stdin:
    claims = json.loads(line)
    claims = claims[::-1] if verb == "cancel" else claims
    print(json.dumps([claim[0] for claim in claims if attempt(*claim)]), flush=True)
"""
ONE_AFTER_ANOTHER = """
UPDATE job SET worker = :worker, orchestrator = NULL, lease_expires_at = :now + :soon + (id - :first) * :pace
WHERE status = 'active'
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_settled_cancelled_and_expired_at_once_each_ends_once_and_all_agree(tmp_path: Path, kind: str) -> None:
    url = url_of(kind, tmp_path)
    ends: Counter[str] = Counter()
    won: set[str] = set()
    with open_store(url, Settings(), make=True) as store, racers(3, RACE, url) as processes:
        worker, crew = store.workers.register("holder", every=3600_000_000).id, Crew(store)
        for turn in range(ROUNDS[kind]):
            first = add_many(store, JOBS, max_attempts=1)[0]
            held = [(each.job_id, each.token, worker) for each in crew.exchange(room=JOBS).claims]
            soon, pace = PACES[turn % len(PACES)]
            rows(store, ONE_AFTER_ANOTHER, worker=worker, now=store.now(), first=first, soon=soon, pace=pace)
            start(processes, json.dumps(held))
            settled, cancelled, _ = map(json.loads, answers(processes))
            won |= {status for (status,) in rows(store, "SELECT DISTINCT status FROM job")} - {"active"}
            eventually(lambda: tended(store))
            assert not set(settled) & set(cancelled), "both were told that it was theirs"
            told = {**dict.fromkeys(settled, "done"), **dict.fromkeys(cancelled, "cancelled")}
            found = dict(rows(store, "SELECT id, status FROM job WHERE id >= :first", first=first))
            assert found == {id: told.get(id, "failed") for id, _, _ in held}
            ends.update(found.values())
        assert rows(store, "SELECT job FROM run GROUP BY job HAVING count(*) <> 1") == [], "one end, one run"
        assert rows(store, "SELECT count(*) FROM run") == [(ROUNDS[kind] * JOBS,)]
        assert {status: store.queues.list()[0].counts[status] for status in ends} == ends
        assert won == {"done", "cancelled", "failed"}, f"one verb never won: that was no race of three: {ends}"
        assert store.database.integrity() == "ok"


def tended(store: Store) -> bool:
    """Whether nothing is held any more, once what has lapsed by now is taken back."""
    store.tick()
    return not rows(store, "SELECT 1 FROM job WHERE status = 'active'")


# A hundred, but for a server: it takes a hundred connections by default, and some are others'.
AT_ONCE, PROCESSES = {"sqlite": 25, "postgres": 20}, 4
ADD = """
from threading import Barrier, Thread
AT_ONCE = 20 if sys.argv[1].startswith("postgres") else 25
together = Barrier(AT_ONCE)
stores = [open_store(sys.argv[1], Settings()) for _ in range(AT_ONCE)]
print("ready", flush=True)
for key in sys.stdin:
    got = []
    def add(store):
        together.wait()
        got.append(store.jobs.add(NewJob("once", key=key.strip())).id)
    threads = [Thread(target=add, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(*got, flush=True)
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_comes_many_times_at_once_is_one_job_and_all_hear_its_id(tmp_path: Path, kind: str) -> None:
    url = url_of(kind, tmp_path)
    with open_store(url, Settings(), make=True) as store, racers(PROCESSES, ADD, url) as processes:
        for turn in range(10):
            start(processes, f"key {turn}")
            ids = [int(id) for answer in answers(processes) for id in answer.split()]
            assert len(ids) == AT_ONCE[kind] * PROCESSES and len(set(ids)) == 1, (
                f"{len(ids)} answers, {len(set(ids))} jobs"
            )
        assert rows(store, "SELECT key, count(*) FROM job GROUP BY key ORDER BY key") == [
            (f"key {turn}", 1) for turn in range(10)
        ]
        assert rows(store, "SELECT count(*) FROM event WHERE facts LIKE '%\"add\"%'") == [(10,)]
