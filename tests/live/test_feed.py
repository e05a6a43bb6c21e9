"""The live feed: what a reader is told, in which order, and where it may leave off."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.errors import BadInput
from rota.core.job import NewJob
from rota.core.schedule import NewSchedule
from rota.core.slot import HTTP
from rota.core.source import Declared
from rota.core.times import HOUR, MINUTE
from rota.live.feed import Feed
from rota.process.host import host_id
from rota.store.sources import Found
from rota.store.workers.crews import Process
from tests.support.clock import FakeClock
from tests.support.stores import make_store, rows
from tests.support.work import Crew, add, add_many, claim, fail, finish, register

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with make_store("sqlite", tmp_path, FakeClock()) as opened:
        yield opened


def told(feed: Feed) -> list[tuple[str, dict[str, Any]]]:
    return [(change.topics[0], change.body) for change in feed.read()]


def test_a_state_that_did_not_change_is_not_told_again(store: Store) -> None:
    feed = Feed(store, ["queue:*:status", "worker:*:status"])
    feed.start()
    assert told(feed) == []
    worker = register(store, "w")
    ((topic, body),) = told(feed)
    assert (topic, body["status"], body["verb"], body["name"]) == (f"worker:-:{worker}:status", "idle", "register", "w")
    store.workers.heartbeat(worker)
    assert told(feed) == []


def test_the_topic_of_a_slot_shows_the_worker_that_fills_it(store: Store) -> None:
    orchestrator = store.orchestrators.join()
    (slot,) = store.slots.take("main", host_id(), {"tag": 1})
    process = Process(store.new_worker_id(), 4711, 12345, slot.name)
    worker = store.orchestrators.register_worker(orchestrator, slot.name, "tag", process)
    (change,) = Feed(store, [f"{slot.name}:status"]).start()
    shown = {name: change.body[name] for name in ("component", "id", "queue_type", "pid", "worker_id")}
    assert shown == {"component": slot.name, "id": slot.n, "queue_type": "tag", "pid": 4711, "worker_id": worker}


def test_what_changed_often_since_the_last_look_is_told_once_as_it_is_now(store: Store) -> None:
    feed = Feed(store, ["queue:default:status"])
    feed.start()
    for job in add_many(store, 5):
        finish(store, job)
    ((_, body),) = told(feed)
    assert (body["pending"], body["completed"]) == (0, 5)


def test_a_schedule_is_told_when_it_is_made_fires_and_is_paused(store: Store) -> None:
    feed = Feed(store, ["schedule:*:status"])
    assert feed.start() == []
    at = store.schedules.add(NewSchedule("nightly", "0 2 * * *")).next_at
    ((topic, body),) = told(feed)
    assert (topic, body["id"], body["verb"], body["fired_count"]) == ("schedule:nightly:status", "nightly", "make", 0)
    clock = store.database._given_clock  # type: ignore[attr-defined]
    clock.advance((at or 0) - store.database.wall())
    store.tick()
    ((_, body),) = told(feed)
    assert (body["verb"], body["fired_count"], body["last_status"]) == ("fire", 1, "ready")
    store.schedules.pause("nightly")
    ((_, body),) = told(feed)
    assert (body["verb"], body["paused"], body["next_at"]) == ("pause", True, None) and told(feed) == []


def test_a_source_is_told_from_its_declaration_to_its_end(store: Store) -> None:
    feed = Feed(store, ["source:*:status"])
    assert feed.start() == []
    store.sources.declare([Declared("files", "tag", "tag", MINUTE, 1, 10, None)])
    ((topic, body),) = told(feed)
    assert (topic, body["id"], body["queue_type"], body["added_count"]) == ("source:files:status", "files", "tag", 0)
    assert body["verb"] == "make" and told(feed) == []
    crew = Crew(store, 1, "tag")
    (filler,) = crew.exchange().claims
    found = [Found(key, None) for key in "abc"]
    store.sources.fill("files", (filler.job_id, filler.token), found, NewJob("", queue="tag"), exhausted=True)
    ((_, body),) = told(feed)
    assert (body["verb"], body["added_count"]) == ("fill", 3)
    store.sources.forget("files")
    ((_, body),) = told(feed)
    assert body["verb"] == "forget" and told(feed) == []


def test_the_api_in_its_slot_is_no_worker_and_its_trouble_degrades_the_system(store: Store) -> None:
    feed = Feed(store)
    orchestrator = store.orchestrators.join()
    (slot,) = store.slots.take("main", host_id(), {HTTP: 1})
    store.orchestrators.register_worker(
        orchestrator, slot.name, slot.queue, Process(store.new_worker_id(), 1, 1, slot.name)
    )
    _, health = found = feed.start()
    assert [change.topics for change in found] == [("queue:status",), ("system:health",)]
    assert health.body == {"status": "healthy", "errors": []}
    rows(store, "UPDATE slot SET status = 'failed', failure_reason = 'restarted 5 times within 300 s'")
    ((_, body),) = told(feed)
    assert body == {"status": "degraded", "errors": ["http:0 has failed: it restarted 5 times within 300 s"]}


def test_every_move_of_a_job_is_told_in_order(store: Store) -> None:
    feed = Feed(store, ["queue:jobs"])
    feed.start()
    first, second = add(store, "A", payload={"path": "a.wav"}), add(store, "B", after=[1])
    fail(store, first, "no such file", again=False)
    store.jobs.retry(first)
    finish(store, first)
    moves = [(body["id"], body["verb"], body["was"], body["status"]) for _, body in told(feed)]
    assert moves == [
        (first, "add", None, "ready"), (second, "add", None, "blocked"), (first, "claim", "ready", "active"),
        (first, "fail", "active", "failed"), (first, "retry", "failed", "ready"), (first, "claim", "ready", "active"),
        (first, "finish", "active", "done"), (second, "unblock", "blocked", "ready"),
    ]  # fmt: skip


def test_the_last_change_has_the_id_at_which_the_feed_stands(store: Store) -> None:
    feed, job = Feed(store, ["queue:jobs"]), add(store)
    held = claim(store, job)
    feed.moves()
    for change in (lambda: store.claims.renew(held, HOUR), lambda: add_many(store, 2), lambda: store.jobs.cancel(job)):
        change()
        assert feed.moves()[-1].id == feed.position


def test_a_move_tells_what_the_job_said_then_and_not_later(store: Store) -> None:
    feed = Feed(store, ["queue:jobs"])
    feed.start()
    id = add(store)
    fail(store, id, "first", again=False)
    store.jobs.retry(id)
    store.jobs.done(id, {"tags": 3}, force=True)
    bodies = [body for _, body in told(feed)]
    assert [body["error"] for body in bodies] == [None, None, "first", None, None]
    assert [body["results"] for body in bodies] == [None, None, None, None, {"tags": 3}]


def test_a_result_that_is_large_is_left_for_the_job_to_tell(store: Store) -> None:
    id = add(store)
    feed = Feed(store, ["queue:jobs"])
    store.jobs.done(id, "x" * 20_000, force=True)
    assert told(feed)[-1][1]["results"] is None


def test_the_path_is_the_payloads_or_the_title(store: Store) -> None:
    for payload in ({"path": "a.wav"}, {"path": 5}, ["path"], '{"path": "b"}', None):
        add(store, "title", payload=payload)
    feed = Feed(store, ["queue:jobs"], after="0")
    assert [body["path"] for _, body in told(feed)] == ["a.wav", "title", "title", "title", "title"]


def test_a_job_that_is_pruned_is_told_as_far_as_the_log_knows_it(store: Store) -> None:
    finish(store, add(store, "A"))
    rows(store, "DELETE FROM job")
    bodies = [body for _, body in told(Feed(store, ["queue:jobs"], after="0"))]
    assert [(body["id"], body["path"], body["status"]) for body in bodies] == [
        (1, None, "ready"), (1, None, "active"), (1, None, "done"),
    ]  # fmt: skip


def test_a_snapshot_of_jobs_is_of_those_that_run(store: Store) -> None:
    add_many(store, 3)
    claim(store, 2)
    found = Feed(store, ["queue:jobs"]).start()
    assert [(change.type, change.body["id"]) for change in found] == [("snapshot", 2)]


@settings(max_examples=25)
@given(st.data())
def test_reading_on_from_any_id_tells_the_rest_and_nothing_else(data: st.DataObject) -> None:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder, make_store("sqlite", Path(folder), FakeClock()) as store:
        for count in data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)):
            ids = add_many(store, count)
            store.jobs.cancel(ids[0])
        whole = [change.document("queue:jobs") for change in Feed(store, ["queue:jobs"], after="0").read()]
        for place, document in enumerate(whole):
            rest = Feed(store, ["queue:jobs"], after=document["id"]).read()
            assert [change.document("queue:jobs") for change in rest] == whole[place + 1 :]


@pytest.mark.parametrize("topic", ["", "nothing", "Queue:status", "queue\n:x", "x" * 300, ":queue"])
def test_what_is_no_topic_is_refused(store: Store, topic: str) -> None:
    with pytest.raises(BadInput, match="is not a topic"):
        Feed(store, [topic])


def test_too_many_topics_are_refused(store: Store) -> None:
    with pytest.raises(BadInput, match="too many"):
        Feed(store, ["queue:status"] * 51)


def test_a_feed_is_read_page_by_page_to_the_end(store: Store) -> None:
    ids = [add(store) for _ in range(1200)]
    feed = Feed(store, ["queue:jobs"], after="0")
    found: list[int] = []
    while feed.is_behind:
        found += [change.body["id"] for change in islice(feed.moves(), None)]
    assert found == ids
