"""An old snapshot on PostgreSQL keeps the rows of ended jobs: claims go on in order, and are cheap again afterwards."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.core.claim import Done, Released
from rota.core.job import READY
from rota.core.times import HOUR, MILLISECOND, SECOND
from rota.store.claims import ready_scan
from rota.store.claims.ready_scan import Floor, ReadyScans
from rota.store.postgres.connection import address
from rota.store.postgres.database import PostgresDatabase
from tests.support.postgres import shared
from tests.support.stores import rows, store_at
from tests.support.work import Crew, add, add_many, status

if TYPE_CHECKING:
    from rota.store.store import Store

pytestmark = pytest.mark.postgres

JOBS = 5_000


def pages_of_a_pick(store: Store, behind: Floor | None = None) -> int:
    """How many pages a claim looks at, which no other load on the machine changes."""
    assert isinstance(store.database, PostgresDatabase)
    text = store.database.texts.plain("claim.pick_behind" if behind else "claim.pick")
    words = {"queue": "'default'", "most": "1"}
    if behind:
        words |= {"priority": f"{behind.priority}", "id": f"{behind.id}", "newest": f"{behind.newest}"}
    for word, value in words.items():
        text = text.replace(f":{word}", value)
    with psycopg.connect(address(store.database.url).conninfo) as connection:
        connection.execute(f"SET search_path TO {store.database.schema}".encode())
        connection.execute("SET seq_page_cost = 10; SET random_page_cost = 1")
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


ENDED = 150_000
ADD = f"""INSERT INTO job (id, queue, kind, title, priority, status, due_wall, max_attempts, created_at)
SELECT nextval('number_job'), 'default', 'work', 'ended', 0, 'ready', 0, 1, 1 FROM generate_series(1, {ENDED})"""


@pytest.mark.timeout(240)
def test_looks_past_what_an_old_snapshot_keeps_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 39: a look that was slow is not made again soon; in between those behind it are as cheap as ever."""
    monkeypatch.setattr(ready_scan, "SLOW", MILLISECOND)  # on a quick machine too; the pages that were looked at decide
    with shared().database() as url, store_at(url) as store:
        add_many(store, 100)
        few = pages_of_a_pick(store)
        with psycopg.connect(address(store.database.url).conninfo) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM pg_class").fetchall()
            rows(store, ADD)
            rows(store, "UPDATE job SET status = 'done', finished_at = 1 WHERE status = 'ready'")
            ids = add_many(store, 300)
            crew = Crew(store, 1)
            first = [each.job_id for _ in range(2) for each in crew.exchange(room=100).claims]
            floor = store.ready_scans.floor("default")
            assert floor is not None and floor.id == ids[199], "the look was not slow: that tests nothing"
            assert pages_of_a_pick(store) > 50 * few
            assert pages_of_a_pick(store, floor) <= 5 * few
            assert [*first, *(each.job_id for each in crew.exchange(room=100).claims)] == ids


def test_behind_the_last_taken_every_priority_is_seen_and_at_last_what_came_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with shared().database() as url, store_at(url) as store:
        low, older, newer = (add(store, priority=p) for p in (-1, 0, 0))
        crew = Crew(store, 1)

        def taken(room: int = 1) -> list[int]:
            held = crew.exchange(room=room).claims
            claims.update({each.job_id: each.token for each in held})
            return [each.job_id for each in held]

        claims: dict[int, int] = {}
        assert taken(2) == [older, newer]
        floor = Floor(0, newer, newer, SECOND, time.monotonic_ns() // 1000 + HOUR)
        store.ready_scans = ReadyScans({"default": floor})
        crew.exchange([(older, claims[older], Released())], room=0)
        assert status(store, older) == READY
        high, another = add(store, priority=1), add(store)
        assert taken() == [high] and taken(9) == [another, low]
        assert taken() == [], "it was walked past, and the look from the best is not due"
        monkeypatch.setattr("time.monotonic_ns", lambda: floor.until * 1000)
        assert taken() == [older]
