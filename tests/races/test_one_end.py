"""Claims that are settled, cancelled and expired at the same instant end once; a key met at once is one job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rota.settings import Settings
from rota.store.open import open_store
from tests.races.racers import answers, racers, start
from tests.support.stores import rows, url_of
from tests.support.work import add_many, claim

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ["sqlite", "postgres"]
ROUNDS, JOBS = {"sqlite": 200, "postgres": 20}, 50
# Who settles begins at the first, who cancels at the last, and leases run out from the first on: all three meet.
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
            store.tend()
    except (Conflict, Stale):
        return False
    return verb != "expire"
print("ready", flush=True)
for line in sys.stdin:
    claims = json.loads(line)
    claims = claims[::-1] if verb == "cancel" else claims
    print(json.dumps([claim[0] for claim in claims if attempt(*claim)]), flush=True)
"""
ONE_AFTER_ANOTHER = "UPDATE job SET lease_expires_at = :now + (id - :first) * 2000 WHERE status = 'active'"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_settled_cancelled_and_expired_at_once_each_ends_once_and_all_agree(tmp_path: Path, kind: str) -> None:
    url = url_of(kind, tmp_path)
    ends = {"done": 0, "cancelled": 0, "failed": 0}
    with open_store(url, Settings(), make=True) as store, racers(3, RACE, url) as processes:
        worker = store.workers.register("holder", every=3600_000_000).id
        for _ in range(ROUNDS[kind]):
            held = [claim(store, job, worker) for job in add_many(store, JOBS, max_attempts=1)]
            rows(store, ONE_AFTER_ANOTHER, now=store.now(), first=held[0].job_id)
            start(processes, json.dumps([(each.job_id, each.token, worker) for each in held]))
            settled, cancelled, _ = map(json.loads, answers(processes))
            store.tend()
            assert not set(settled) & set(cancelled), "both were told that it was theirs"
            for each in held:
                id = each.job_id
                status = "done" if id in settled else "cancelled" if id in cancelled else "failed"
                assert store.jobs.get(id).status == status, f"job {id}"
                ends[status] += 1
        assert rows(store, "SELECT job FROM run GROUP BY job HAVING count(*) <> 1") == [], "one end, one run"
        assert rows(store, "SELECT count(*) FROM run") == [(ROUNDS[kind] * JOBS,)]
        assert {status: store.queues.list()[0].counts[status] for status in ends} == ends
        assert sum(many > 0 for many in ends.values()) > 1, f"one verb won everything: that was no race: {ends}"
        assert store.database.integrity() == "ok"


ADD = """
from threading import Barrier, Thread
AT_ONCE = 25
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
def test_a_key_that_comes_a_hundred_times_at_once_is_one_job_and_all_hear_its_id(tmp_path: Path, kind: str) -> None:
    url = url_of(kind, tmp_path)
    with open_store(url, Settings(), make=True) as store, racers(4, ADD, url) as processes:
        for turn in range(10):
            start(processes, f"key {turn}")
            ids = [int(id) for answer in answers(processes) for id in answer.split()]
            assert len(ids) == 100 and len(set(ids)) == 1, f"{len(ids)} answers, {len(set(ids))} jobs"
        assert rows(store, "SELECT key, count(*) FROM job GROUP BY key ORDER BY key") == [
            (f"key {turn}", 1) for turn in range(10)
        ]
        assert rows(store, "SELECT count(*) FROM event WHERE facts LIKE '%\"add\"%'") == [(10,)]
