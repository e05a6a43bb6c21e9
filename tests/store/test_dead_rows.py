"""An old snapshot on PostgreSQL keeps the rows of ended jobs: claims go on in order, and are cheap again afterwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.core.claim import Done
from rota.store.postgres.database import PostgresDatabase
from rota.store.postgres.link import address
from tests.support.postgres import shared
from tests.support.stores import rows, store_at
from tests.support.work import Crew, add_many

if TYPE_CHECKING:
    from rota.store.store import Store

JOBS = 5_000


def pages_of_a_pick(store: Store) -> int:
    """How many pages a claim looks at, which no other load on the machine changes."""
    assert isinstance(store.database, PostgresDatabase)
    text = store.database.texts.plain("claim.pick").replace(":queue", "'default'").replace(":most", "1")
    with psycopg.connect(address(store.database.url).conninfo) as connection:
        connection.execute(f"SET search_path TO {store.database.schema}".encode())
        connection.execute("SET enable_seqscan = off")
        found = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}".encode()).fetchone()
        connection.rollback()
    assert found is not None
    (told,) = found[0] if isinstance(found[0], list) else json.loads(found[0])
    return int(told["Plan"]["Shared Hit Blocks"] + told["Plan"]["Shared Read Blocks"])


def work_off(store: Store, count: int) -> list[int]:
    """The ids in the order in which they were claimed."""
    crew, outcomes, order = Crew(store, 4), list[tuple[int, int, Done]](), list[int]()
    while len(order) < count or outcomes:
        answer = crew.exchange(outcomes, room=50 if len(order) < count else 0)
        outcomes = [(each.job_id, each.token, Done()) for each in answer.claims]
        order += [each.job_id for each in answer.claims]
    return order


@pytest.mark.timeout(240)
def test_behind_an_old_snapshot_claims_go_on_in_order_and_are_as_cheap_again_when_it_ends() -> None:
    with shared().database() as url, store_at(url) as store:
        add_many(store, 100)
        few = pages_of_a_pick(store)
        with psycopg.connect(address(store.database.url).conninfo) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM pg_class").fetchall()
            ids = [job.id for job in store.jobs.ready(limit=100)] + add_many(store, JOBS)
            assert work_off(store, len(ids)) == ids, "each once, in order"
            add_many(store, 100)
            rows(store, "VACUUM job")
            behind = pages_of_a_pick(store)
            assert behind > few, "the snapshot keeps nothing: that tests nothing"
            # Two versions of a row for each ended job, a few dozen to a page.
            assert behind < few + JOBS / 10, f"{behind} pages looked at for one claim, {few} before"
            reader.rollback()
        rows(store, "VACUUM job")
        assert pages_of_a_pick(store) <= 5 * few
