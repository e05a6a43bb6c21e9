"""Processes claim and settle many jobs: each settled once, nobody starved, nobody sees a lock error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rota.settings import Settings
from rota.store.jobs.enqueue import NewJob
from rota.store.open import open_store
from tests.races.racers import answers, racers, start
from tests.support.stores import rows, url_of
from tests.support.tiers import times

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RACES = [("sqlite", 16, times(1_600, 10_000)), ("postgres", 6, times(600, 10_000))]
# Longest wait: from asking to write until the transaction has begun, over all of them.
DRAIN = """
import json, time
from contextlib import contextmanager
from rota.core.claim import Done
from rota.core.errors import NothingReady
store = open_store(sys.argv[1], Settings())
longest, right = 0.0, store.database.write
@contextmanager
def write(exclusive=False):
    global longest
    asked = time.monotonic()
    with right(exclusive):
        longest = max(longest, time.monotonic() - asked)
        yield
store.database.write = write
worker = store.workers.register(f"racer {sys.argv[2]}", every=3600_000_000).id
print("ready", flush=True)
input()
longest, settled = 0.0, []
while True:
    try:
        claim = store.claims.take(worker)
    except NothingReady:
        break
    store.claims.settle(claim, Done())
    settled.append(claim.job_id)
print(json.dumps({"settled": settled, "longest": longest}), flush=True)
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("kind", "racing", "many"), RACES)
def test_many_processes_claim_and_settle_many_jobs_once_each(
    tmp_path: Path, kind: str, racing: int, many: int, record_property: Callable[[str, object], None]
) -> None:
    url = url_of(kind, tmp_path)
    with open_store(url, Settings(), make=True) as store, racers(racing, DRAIN, url) as processes:
        ids = store.jobs.add_many(NewJob("a job") for _ in range(many))
        start(processes, "go")
        told = [json.loads(answer) for answer in answers(processes)]
        settled = sorted(id for each in told for id in each["settled"])
        assert settled == ids, "each settled once, by one process"
        shares = [len(each["settled"]) for each in told]
        assert min(shares) >= many // racing // 4, f"somebody starved: {shares}"
        assert rows(store, "SELECT count(*), count(DISTINCT job) FROM run WHERE verb = 'finish'") == [(many, many)]
        assert store.queues.list()[0].counts["done"] == many
        longest = max(each["longest"] for each in told)
        record_property("longest_wait_ms", round(longest * 1000))
        print(f"longest wait to write: {longest * 1000:.0f} ms; shares {min(shares)} to {max(shares)}")
        assert longest < 5, f"the queue for the lock is not fair: somebody waited {longest:.1f} s"
        assert store.database.integrity() == "ok"
