"""The live feed over HTTP: a snapshot, then changes; replayed where one left off; bounded for those who do not read."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from rota.api.stream import hub
from rota.api.stream.readers import Reader
from rota.process.host import host_id
from tests.api.servers import Server, next_of_each
from tests.support.cable import cable
from tests.support.eventually import eventually
from tests.support.processes import stop_between_writes
from tests.support.stores import database_for_tests, rows, url_of
from tests.support.work import add, add_many

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUEUE = ["queue_type", "pending", "running", "completed", "avg_time", "eta"]
WORKER = ["component", "id", "queue_type", "status", "pid", "current_job"]
ADDED, RESYNC = b'"verb":"add"', b'"type":"resync"'
JOB = ["id", "path", "status", "error", "results"]
ON_BOTH = (
    "test_a_reader_gets_a_snapshot_of_each_topic_and_then_the_changes",
    "test_a_replay_is_exactly_what_was_missed",
    "test_a_reader_whose_token_is_revoked_hears_nothing_more",
)


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Server]:
    """A server that keeps streams alive every fifth of a second, and lets little wait."""
    limits = "hub.KEEP_ALIVE = 0.2; readers.MOST_WAITING = 20; hub.MOST_REPLAYED = 30"
    change = f"from rota.api.stream import hub, readers; {limits}"
    server = Server(tmp_path, change=change)
    yield server
    server.end()


REVOKED_MEANWHILE = """
from rota.api.stream import hub
join = hub.Hub.join
async def late(self, patterns, after, token_id):
    await self._stores.ask(lambda store: store.tokens.revoke(token_id))
    return await join(self, patterns, after, token_id)
hub.Hub.join = late
"""


def test_a_token_revoked_while_its_reader_joins_opens_no_stream(tmp_path: Path) -> None:
    server = Server(tmp_path, change=REVOKED_MEANWHILE)
    try:
        with server.client(server.token("ci", "read")).http.stream("GET", "/api/v1/events") as answer:
            assert answer.status_code == 401
        assert "rota_http_event_readers 0.0" in server.client().call("GET", "/metrics").text
    finally:
        server.end()


@pytest.mark.postgres
def test_a_store_that_fails_is_an_error_of_the_systems_health_until_it_answers_again(tmp_path: Path) -> None:
    schema = url_of("postgres", tmp_path).partition("?")[2]
    with cable(database_for_tests()) as link:
        server = Server(tmp_path, kind="postgres", ROTA_DB=f"{link.url}?{schema}", ROTA_POLL_INTERVAL="200ms")
        try:
            with server.client().events("system:health") as events:
                assert events.next(type="snapshot")["health"] == {"status": "healthy", "errors": []}
                link.down = True
                link.cut()
                told = events.next()
                assert (told["topic"], told["type"]) == ("system:health", "health_update")
                assert told["health"]["status"] == "error" and len(told["health"]["errors"]) == 1
                tried = link.refused
                eventually(lambda: link.refused >= tried + 6)  # it keeps failing: nothing more is said of that
                link.down = False
                again = events.next()
                assert (again["type"], again["health"]) == ("health_update", {"status": "healthy", "errors": []})
        finally:
            server.end()


def test_a_reader_gets_a_snapshot_of_each_topic_and_then_the_changes(server: Server) -> None:
    shell = server.shell
    first, worker = (
        shell.add("A", "--queue", "tag", "--payload", '{"path": "a.wav"}'),
        shell.register("w", "--queue", "tag"),
    )
    shell.say("claim", first, worker)
    with server.client().events("queue:*", "worker:*:status", "system:health") as events:
        found = {document["topic"]: document for document in (next(iter(events)) for _ in range(5))}
        assert {document["type"] for document in found.values()} == {"snapshot"}
        topic = f"worker:tag:{worker}:status"
        assert set(found) == {"queue:tag:status", "queue:status", topic, "system:health", "queue:tag:jobs"}
        assert list(found["queue:status"]["queue"]) == QUEUE
        assert list(found[topic]["worker"])[:6] == WORKER
        assert list(found["queue:tag:jobs"]["job"])[:5] == JOB
        assert found["queue:status"]["queue"]["queue_type"] is None
        assert found["queue:tag:jobs"]["job"]["path"] == "a.wav"
        assert found["system:health"]["health"] == {"status": "healthy", "errors": []}

        shell.say("done", first, "--result", '{"tags": 3}')
        moved, queue, idle = events.each("queue:tag:jobs", "queue:tag:status", topic)
        assert (moved["type"], moved["job"]["status"], moved["job"]["was"]) == ("job_update", "done", "active")
        assert moved["job"]["results"] == {"tags": 3} and moved["actor"]
        assert (queue["type"], queue["queue"]["completed"], queue["queue"]["running"]) == ("queue_update", 1, 0)
        assert queue["queue"]["avg_time"] > 0
        assert (idle["type"], idle["worker"]["status"], idle["worker"]["current_job"]) == (
            "worker_update",
            "idle",
            None,
        )
        shell.say("worker", "deregister", worker)
        assert events.next(topic=topic)["worker"]["status"] == "stopped"


def test_the_slots_of_a_crew_are_told_and_their_trouble_is_the_systems(server: Server) -> None:
    with server.store() as store:
        store.slots.scale("main", host_id(), "tag", 2)
        with server.client().events("worker:tag:*:status", "system:health") as events:
            assert {events.next(type="snapshot")["topic"] for _ in range(3)} >= {"worker:tag:0:status", "system:health"}
            orchestrator = store.orchestrators.join()
            trouble = events.next(topic="system:health")
            assert trouble["health"] == {"status": "error", "errors": ["queue tag has no live worker"]}
            worker = store.orchestrators.register_worker(orchestrator, "worker:tag:0", "tag")
            store.orchestrators.came_up(worker, "worker:tag:0")
            up = events.next(topic="worker:tag:0:status")["worker"]
            assert (up["component"], up["id"], up["queue_type"]) == ("worker:tag:0", 0, "tag")
            assert events.next(topic="system:health")["health"]["status"] == "healthy"


def test_only_wanted_topics_are_told(server: Server) -> None:
    with server.client().events("queue:tag:jobs") as events:
        for queue in ("scan", "tag", "scan", "tag"):
            server.shell.add("A", "--queue", queue)
        assert [next(iter(events))["job"]["id"] for _ in range(2)] == [2, 4]


def test_a_change_reaches_a_reader_soon(server: Server) -> None:
    """The bound is for a quiet machine; on a busy one this shows that nobody waits for a poll of two seconds."""
    with server.client().events("queue:jobs", "queue:status") as events, server.store() as store:
        events.next(topic="queue:status")
        took = []
        for _ in range(10):
            began = time.monotonic()
            id = add(store)
            told = set()
            for document in events:  # which of the two comes first is nobody's business
                told.add(document["topic"])
                if document["topic"] == "queue:jobs":
                    assert document["job"]["id"] == id
                if told == {"queue:jobs", "queue:status"}:
                    break
            took.append(time.monotonic() - began)
        assert sorted(took)[5] < 1


def test_a_replay_is_exactly_what_was_missed(server: Server) -> None:
    client, shell = server.client(), server.shell
    with client.events("queue:jobs") as events:
        shell.add("first")
        seen = [next(iter(events))]
        last = events.last_id
    client.post("/api/v1/jobs/bulk", jobs=[{"title": str(n)} for n in range(5)])
    shell.say("cancel", 3)
    shell.say("done", 4, "--force")
    with client.events("queue:jobs") as events:
        shell.add("last")
        next(iter(events))
    whole = []
    with client.events("queue:jobs", after="0") as events:
        whole = [next(iter(events)) for _ in range(9)]
    for step in range(1, 9):
        while len(seen) < step + 1:
            with client.events("queue:jobs", after=last) as events:
                seen.append(next(iter(events)))
                last = events.last_id
    if "ROTA_DB" in shell.env:  # there an id tells from where it was read on
        seen, whole = [[{**each, "id": None} for each in told] for told in (seen, whole)]
    assert seen == whole, "one at a time, ended in the middle of a transaction too: none missing, none twice"
    moves = [(document["job"]["id"], document["job"]["verb"]) for document in whole]
    assert moves == [(1, "add"), *((n, "add") for n in range(2, 7)), (3, "cancel"), (4, "force"), (7, "add")]


def test_what_is_no_longer_known_is_a_resync_and_a_snapshot(hasty: Server) -> None:
    client, shell = hasty.client(), hasty.shell
    id = shell.add("A")
    with client.events("queue:jobs", "queue:status") as events:
        events.next(topic="queue:status")
        last = events.last_id
    for _ in range(35):
        shell.say("pause"), shell.say("resume")
    shell.say("claim", id)
    with client.events("queue:jobs", "queue:status", after=last) as events:
        moved = events.next(topic="queue:jobs")
        assert (moved["type"], moved["job"]["verb"]) == ("job_update", "claim"), "events of others do not count"
    client.post("/api/v1/jobs/bulk", jobs=[{"title": str(n)} for n in range(35)])
    with client.events("queue:jobs", "queue:status", after=last) as events:
        assert next(iter(events))["type"] == "resync"
        assert next(iter(events))["type"] == "snapshot"
    shell.say("prune", "--older", "1ms")
    for unknown in (last, "999999"):
        with client.events("queue:jobs", "queue:status", after=unknown) as events:
            first = next(iter(events))
            assert (first["type"], first["topic"]) == ("resync", "*")
            assert events.next(topic="queue:status")["type"] == "snapshot"
            assert events.next(topic="queue:jobs")["job"]["id"] == id


def test_a_stream_has_no_head(server: Server) -> None:
    answer = server.client().call("HEAD", "/api/v1/events")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert server.client().call("HEAD", "/api/v1/jobs").status_code == 200


@pytest.mark.parametrize("id", ["x", "-1", "1/x", "1/-1", "9" * 30, "x" * 500])
def test_an_id_that_never_was_is_refused(server: Server, id: str) -> None:
    assert server.client().call("GET", "/api/v1/events", **{"Last-Event-ID": id}).status_code == 400


def test_a_transaction_of_very_many_jobs_is_a_resync_of_its_topic(server: Server) -> None:
    client = server.client()
    with client.events("queue:tag:*") as events:
        client.post("/api/v1/jobs/bulk", jobs=[{"title": str(n), "queue": "tag"} for n in range(500)])
        assert next(iter(events)) | {"id": "", "timestamp": 0, "at": ""} == {
            "id": "", "topic": "queue:tag:jobs", "type": "resync", "timestamp": 0, "at": "",
        }  # fmt: skip
        assert events.next(topic="queue:tag:status")["queue"]["pending"] == 500


def test_states_are_told_at_most_ten_times_a_second(server: Server) -> None:
    with server.client().events("queue:status") as events, server.store() as store:
        began = time.monotonic()
        for _ in range(100):
            add_many(store, 1)
        told = 0
        for document in events:
            told += 1
            if document["queue"]["pending"] == 100:
                break
        seconds = time.monotonic() - began
    assert told <= 3 + seconds * 10


def test_a_quiet_stream_is_kept_alive_by_events_that_are_no_news(hasty: Server) -> None:
    with hasty.client().events("queue:tag:jobs") as events:
        assert events.line() == "retry: 1000"
        assert [events.line() for _ in range(7)] == ["", *["event: alive", "data:", ""] * 2]


def test_a_reader_whose_token_is_revoked_hears_nothing_more(server: Server) -> None:
    client = server.client(server.token("short", "read"))
    with client.events("queue:jobs") as events, server.client().events("queue:jobs") as others:
        server.shell.add("A")
        assert next(iter(events))["job"]["id"] == 1
        (token,) = [each for each in server.shell.ask("token", "list") if each["name"] == "short"]
        server.shell.say("token", "revoke", token["id"])
        assert list(events) == [], "its stream ends"
        server.shell.add("B")
        assert [next(iter(others))["job"]["id"] for _ in range(2)] == [1, 2], "and no other"
    client.refused(401, "GET", "/api/v1/events")


def test_who_does_not_read_is_told_to_begin_anew_and_delays_nobody(hasty: Server) -> None:
    with join(hasty, "queue:jobs") as lazy, hasty.client().events("queue:jobs") as events:
        eventually(lambda: "rota_http_event_readers 2.0" in hasty.stranger().call("GET", "/metrics").text)
        client = hasty.client()
        for n in range(60):
            jobs = [{"title": "x" * 900, "payload": {"path": "y" * 4000}} for _ in range(10)]
            client.post("/api/v1/jobs/bulk", jobs=jobs)
            for _ in range(10):
                assert next(iter(events))["job"]["verb"] == "add", n
        Heard(lazy).until(RESYNC, 1)


def test_of_five_hundred_readers_those_who_read_hear_all_and_those_who_do_not_cost_little(server: Server) -> None:
    """Fault 44: half of them never read. Those want other topics each, lest they share what waits for them."""
    with ExitStack() as all_of_them:
        quick = [Heard(all_of_them.enter_context(join(server, "queue:jobs"))) for _ in range(250)]
        lazy = [Heard(all_of_them.enter_context(join(server, "queue:jobs", f"queue:{n}"))) for n in range(250)]
        client = server.client()
        eventually(lambda: "rota_http_event_readers 500.0" in client.call("GET", "/metrics").text)
        before = memory(server)
        for turn in range(1, 8):
            client.post("/api/v1/jobs/bulk", jobs=[{"title": "a job", "payload": {"path": "y" * 100_000}}] * 2)
            for reader in quick:
                reader.until(ADDED, 2 * turn)
        assert {reader.count for reader in quick} == {14}, "each change once"
        grown = memory(server, "VmHWM") - before
        assert grown < 250 * 800, f"{grown} kB: a piece on its way and one that waits for each, not all that was told"
        for reader in lazy:
            reader.until(RESYNC, 1)


def join(server: Server, *topics: str) -> socket.socket:
    """A reader of the feed, who may leave what comes unread."""
    place = urlsplit(server.url)
    reader = socket.create_connection((place.hostname or "", place.port or 0), timeout=30)
    wanted = "&".join(f"topics={topic}" for topic in topics)
    head = f"GET /api/v1/events?{wanted} HTTP/1.1\r\nHost: {place.netloc}\r\n"
    reader.sendall(f"{head}Authorization: Bearer {server.secret}\r\n\r\n".encode())
    return reader


class Heard:
    """What one reader heard, counted by a word in it."""

    def __init__(self, reader: socket.socket) -> None:
        self._reader = reader
        self._end = b""  # of what came last: a word may come in two pieces
        self.count = 0

    def until(self, word: bytes, times: int) -> None:
        """Read on until the word came that many times in all."""
        while self.count < times:
            came = self._reader.recv(1 << 18)
            assert came, "the stream ended"
            data = self._end + came
            self.count += data.count(word)
            self._end = data[1 - len(word) :]


def memory(server: Server, which: str = "VmRSS") -> int:
    """What the server has in memory, in kB; the most that it ever had is `VmHWM`."""
    assert server.process is not None
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(which))


def test_streams_end_when_the_server_does(server: Server) -> None:
    with server.client().events("queue:status") as events:
        events.next(type="snapshot")
        assert server.process is not None
        server.process.terminate()
        assert list(events) == []
    assert server.process.wait(20) == 0


def test_the_command_line_follows_the_same_feed(server: Server) -> None:
    topics = ("queue:*", "worker:*:status", "system:health")
    words = [word for topic in topics for word in ("--topic", topic)]
    following = server.shell.start("events", "--follow", "--json", *words)
    assert following.stdout is not None

    printed = map(json.loads, following.stdout)
    with server.client().events(*topics) as events:
        begun = ("queue:status", "system:health")
        assert list(map(same, next_of_each(printed, begun))) == list(map(same, events.each(*begun)))
        server.shell.add("A", "--queue", "tag")
        changed = ("queue:tag:jobs", "queue:tag:status", "queue:status")
        assert list(map(same, next_of_each(printed, changed))) == list(map(same, events.each(*changed)))


def same(document: dict[str, Any]) -> dict[str, Any]:
    """Without when it was looked at; a state may be told before or after the move that changed it."""
    chance = ("timestamp", "at") if document["type"] == "job_update" else ("timestamp", "at", "id")
    return {name: value for name, value in document.items() if name not in chance}


def test_readers_are_woken_a_few_at_a_time_so_that_others_are_answered_in_between() -> None:
    turns: list[None] = []
    met: list[int] = []

    async def count_turns() -> None:
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    async def wake() -> None:
        counting = asyncio.create_task(count_turns())
        async for _ in hub.in_turns([Reader((), None) for _ in range(5 * hub.AT_ONCE)]):
            met.append(len(turns))
        counting.cancel()

    asyncio.run(wake())
    assert [met.count(n) for n in sorted(set(met))] == [hub.AT_ONCE] * 5


def test_a_fact_that_the_feed_cannot_read_is_a_resync_and_not_the_end_of_it(server: Server) -> None:
    """As a newer rota may write one."""
    client = server.client()
    with client.events("queue:jobs", "worker:*") as events:
        first = server.shell.add("A")
        assert events.next(topic="queue:jobs")["job"]["id"] == first
        last = events.last_id
        with server.store() as store:
            rows(store, 'INSERT INTO event (at, actor, facts) VALUES (1, \'newer\', \'[["worker", "odd", "w"]]\')')
        assert events.next(topic="*")["type"] == "resync"
        second = server.shell.add("B")
        assert events.next(topic="queue:jobs")["job"]["id"] == second
    with client.events("queue:jobs", after=last) as events:
        assert next(iter(events))["type"] == "resync", "what it missed cannot be told again"
        third = server.shell.add("C")
        assert events.next(topic="queue:jobs")["job"]["id"] == third
    assert "the live feed failed" in server.log.read_text()


def test_a_result_that_no_reader_of_json_takes_is_told_as_text(server: Server) -> None:
    """Another program wrote it, behind the store's back, before the feed saw the job done."""
    assert server.process is not None
    with server.client().events("queue:jobs") as events:
        id = server.shell.add("A")
        assert events.next(topic="queue:jobs")["job"]["id"] == id
        with server.store() as store:
            stop_between_writes(server.process.pid, store)
            server.shell.say("done", id, "--force", "--result", "1")
            rows(store, "UPDATE job SET result = :json WHERE id = :id", json=r'"\ud800"', id=id)
        server.process.send_signal(signal.SIGCONT)
        told = events.next(topic="queue:jobs")
        assert (told["job"]["status"], told["job"]["results"]) == ("done", r'"\ud800"')
        assert server.shell.add("B") == events.next(topic="queue:jobs")["job"]["id"]


def test_a_queue_with_a_pool_has_a_snapshot_before_its_first_job(server: Server) -> None:
    with server.store() as store:
        store.slots.take("main", host_id(), {"tag": 1})
    with server.client().events("queue:tag:status") as events:
        first = next(iter(events))
        assert (first["type"], first["topic"]) == ("snapshot", "queue:tag:status")
        assert (first["queue"]["queue_type"], first["queue"]["pending"], first["queue"]["running"]) == ("tag", 0, 0)
        server.shell.add("A", "--queue", "tag")
        assert events.next(type="queue_update")["queue"]["pending"] == 1
