"""How many jobs per second one process moves through the store, and through equal rows written by hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota.core.claim import Done
from rota.lab.bench.raw_store import RawPostgres, RawSqlite
from rota.settings import Settings
from rota.store.claims.exchange import Idle, Report
from rota.store.jobs.enqueue import NewJob
from rota.store.open import open_store

if TYPE_CHECKING:
    from rota.core.claim import Outcome
    from rota.store.store import Store

PAYLOAD = {"path": "library/a.wav", "n": 1}
PAYLOAD_TEXT = '{"path":"library/a.wav","n":1}'


def drain_rota(url: str, batch: int, jobs: int) -> float:
    """Return jobs per second through `exchange`."""
    with _new_store(url) as store:
        store.jobs.add_many(_new_job(n) for n in range(jobs))
        id = store.orchestrators.join()
        worker = store.orchestrators.register_worker(id, "worker:q:0", "q")
        idle, number, done = [Idle(worker, "q", batch)], 0, 0
        outcomes: list[tuple[int, int, Outcome]] = []
        started = time.perf_counter()
        while done < jobs:
            answer = store.orchestrators.exchange(id, number, Report(outcomes, idle))
            assert not answer.refused
            number, done = answer.number, done + len(outcomes)
            outcomes = [(claim.job_id, claim.token, Done("null")) for claim in answer.claims]
        return done / (time.perf_counter() - started)


def drain_raw(url: str, batch: int, jobs: int) -> float:
    queue = _raw(url)
    queue.insert([PAYLOAD_TEXT] * jobs)
    started = time.perf_counter()
    held, done = queue.exchange([], batch), 0
    while held:
        done, held = done + len(held), queue.exchange(held, batch)
    rate = done / (time.perf_counter() - started)
    queue.close()
    return rate


def enqueue_rota(url: str, batch: int, times: int) -> float:
    """Return jobs per second through `add` or `add_many`."""
    with _new_store(url) as store:
        store.jobs.add(_new_job(0))
        started = time.perf_counter()
        for _ in range(times):
            if batch == 1:
                store.jobs.add(_new_job(1))
            else:
                store.jobs.add_many([_new_job(n) for n in range(batch)])
        return times * batch / (time.perf_counter() - started)


def enqueue_raw(url: str, batch: int, times: int) -> float:
    queue = _raw(url)
    queue.insert([PAYLOAD_TEXT])
    started = time.perf_counter()
    for _ in range(times):
        queue.insert([PAYLOAD_TEXT] * batch)
    rate = times * batch / (time.perf_counter() - started)
    queue.close()
    return rate


def _new_job(n: int) -> NewJob:
    return NewJob(f"job {n}", queue="q", kind="noop", payload=PAYLOAD)


def _new_store(url: str) -> Store:
    return open_store(url, Settings(), make=True)


def _raw(url: str) -> RawSqlite | RawPostgres:
    return RawPostgres(url) if "://" in url else RawSqlite(url)
