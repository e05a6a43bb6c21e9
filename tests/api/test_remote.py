"""The store over HTTP: the same records and the same errors as on the database, and patience while the API is away."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from rota.core import errors
from rota.core.claim import Claim, Done, Failed, Snoozed
from rota.core.errors import RotaError
from rota.core.job import NewJob
from rota.core.source import Declared
from rota.core.times import MINUTE, SECOND
from rota.live import feed
from rota.settings import Settings
from rota.store.open import open_store
from rota.store.remote import client
from rota.store.remote.http_connection import address_of
from tests.api.servers import Server
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rota.store.store import Store

UNTOLD: dict[str, object] = {"dependents": 0, "due_wall": 0, "isolated": 0}  # what only the store itself needs


@pytest.fixture
def remote(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("ROTA_TOKEN", server.secret)
    with open_store(server.url, Settings()) as store:
        yield store


@pytest.fixture
def local(server: Server) -> Iterator[Store]:
    with server.store() as store:
        yield store


def test_a_unique_key_admits_the_next_job_over_http_too(remote: Store) -> None:
    first = remote.jobs.add(NewJob("Sync ann", key="ann", unique="active"))
    assert remote.jobs.add(NewJob("Sync ann", key="ann", unique="active")).id == first.id
    remote.jobs.done(first.id, force=True)
    assert remote.jobs.add(NewJob("Sync ann", key="ann")).id == first.id
    assert remote.jobs.add(NewJob("Sync ann", key="ann", unique="active")).id > first.id


def test_a_record_is_the_same_as_on_the_database(remote: Store, local: Store) -> None:
    payload = {"path": "ä.wav", "n": [1, 2.5, None, True], "deep": {"big": 1 << 60}}
    told = NewJob("Tag", "tag", "label", payload, 3, key="a", limit_key="k", max_attempts=2, timeout=90 * SECOND)
    first = remote.jobs.add(told)
    second = remote.jobs.add(NewJob("B", "tag", after=[first.id], parent=first.id, at=local.now() + MINUTE))
    worker = remote.workers.register("loop", 5 * SECOND, queue="tag", pid=17)
    claim = remote.claims.take(worker.id, "tag", MINUTE)
    assert claim == local.claims.held(first.id, worker.id) == remote.claims.held(first.id, token=claim.token)
    remote.claims.checkpoint(claim, {"page": 3})
    remote.claims.capture(claim, "/tmp/out", None)
    renewed = remote.claims.renew(claim, 2 * MINUTE)
    assert renewed.renewed_count == 1 and renewed.lease_expires_at is not None
    for id in (first.id, second.id):
        assert remote.jobs.get(id) == local.jobs.get(id).replace(**UNTOLD)
    assert remote.workers.held(worker.id) == [job.replace(**UNTOLD) for job in local.workers.held(worker.id)] != []
    assert remote.workers.heartbeat(worker.id, {"cpu": 5, "progress": {"done": 1.0, "note": "half"}}) == "continue"
    assert remote.workers.get(worker.id) == local.workers.get(worker.id)
    assert remote.workers.list() == local.workers.list() and remote.workers.get(worker.id).queue == "tag"

    remote.claims.settle(renewed, Snoozed(MINUTE, "not yet"))
    again = remote.claims.claim(remote.jobs.add(NewJob("C", "tag")).id, worker.id)
    remote.claims.settle(again, Failed("no", again=False))
    remote.claims.settle(again, Failed("no", again=False))
    with pytest.raises(errors.Stale):
        remote.claims.settle(again, Done(None))
    assert remote.claims.runs(first.id) == local.claims.runs(first.id) != []
    assert [job.replace(**UNTOLD) for job in local.jobs.list()] == remote.jobs.list()
    assert remote.claims.run(remote.claims.runs(first.id)[0].id) == local.claims.runs(first.id)[0]

    remote.queues.set("tag", max_depth=10, rate="10/m")
    remote.queues.pause("tag", "a new model")
    assert remote.queues.get("tag") == local.queues.get("tag").replace(rate_next_at=0)
    assert not remote.queues.is_open("tag") and remote.queues.is_open() == local.queues.is_open()
    assert remote.queues.resume() == ["tag"]
    local.sources.declare([Declared("files", "tag", "label", MINUTE, 10, 100, 3)])
    assert remote.sources.list() == local.sources.list()
    assert remote.events.after("0") == local.events.after("0") and remote.events.newest(limit=3) == local.events.newest(
        limit=3
    )
    token, secret = remote.tokens.create("office", ["read"])
    assert local.tokens.prove(secret) == token and remote.tokens.list() == local.tokens.list()
    assert abs(remote.now() - local.now()) < MINUTE and abs(remote.database.wall() - local.database.wall()) < MINUTE
    assert remote.reconcile(plan=True) == local.reconcile(plan=True)


def wrong(store: Store) -> dict[type[RotaError], Callable[[], Any]]:
    """What cannot be done, by what it should raise."""
    store.queues.set("full", max_depth=1)
    id = store.jobs.add(NewJob("A", "full")).id
    worker = store.workers.register("loop").id
    claim = store.claims.claim(id, worker)
    return {
        errors.NotFound: lambda: store.jobs.get(999),
        errors.QueueFull: lambda: store.jobs.add_many([NewJob("B", "full"), NewJob("C", "full")]),
        errors.BadInput: lambda: store.jobs.add(NewJob("A", "no name!")),
        errors.TooLarge: lambda: store.jobs.add(NewJob("A", payload="x" * 300_000)),
        errors.Cycle: lambda: store.jobs.block(id, id),
        errors.Conflict: lambda: store.claims.claim(id, worker),
        errors.Stale: lambda: store.claims.renew(Claim(id, claim.token + 1, worker, 0, None)),
        errors.NothingReady: lambda: store.claims.take(worker, "default"),
        errors.UnknownWorker: lambda: store.workers.heartbeat("worker-00000000"),
        errors.WaitedTooLong: lambda: store.jobs.wait([id], "done", SECOND // 10),
    }


def test_what_goes_wrong_raises_what_the_database_would(remote: Store) -> None:
    for kind, act in wrong(remote).items():
        with pytest.raises(RotaError) as found:
            act()
        assert type(found.value) is kind, (kind, found.value)


def test_who_is_not_let_in_is_told_what_to_set(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_TOKEN", raising=False)
    with open_store(server.url, Settings()) as store, pytest.raises(errors.Refused, match="set ROTA_TOKEN"):
        store.jobs.list()
    reader = server.token("reader", "read")
    named = server.url.replace("http://", f"http://{reader}@")
    with open_store(named, Settings()) as store:
        assert store.jobs.list() == []
        with pytest.raises(errors.Refused, match="needs the scope enqueue") as found:
            store.jobs.add(NewJob("A"))
        assert reader not in str(found.value) and reader not in store.database.path
    told = server.shell.exporting(ROTA_DB="http://rota_a_secret@127.0.0.1:1").refuse("list", code=1)
    assert "out of reach" in told and "secret" not in told


def test_a_worker_s_token_is_enough_for_a_worker(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_TOKEN", server.token("shift", "read", "work"))
    id = server.shell.add()
    with open_store(server.url, Settings()) as store:
        with pytest.raises(errors.Refused, match="may not claim for a person"):
            store.claims.claim(id)
        claim = store.claims.take(store.workers.register("loop").id)
        store.claims.settle(claim, Done('{"tags": 3}'))
        assert store.jobs.get(id).result == {"tags": 3}


def test_a_worker_s_token_settles_without_the_claim_s_token_what_its_worker_holds(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, failed, later, others = (server.shell.add() for _ in range(4))
    monkeypatch.setenv("ROTA_TOKEN", server.token("stranger", "read", "work"))
    with open_store(server.url, Settings()) as stranger:
        stranger.claims.claim(others, stranger.workers.register("theirs").id)
    loop = server.shell.exporting(ROTA_DB=server.url, ROTA_TOKEN=server.token("loop", "read", "work"))
    worker = loop.register()
    for id in (done, failed, later):
        loop.ask("claim", id, worker)
    assert loop.ask("done", done, "--result", '{"tags":3}')["result"] == {"tags": 3}
    assert loop.ask("fail", failed, "--final", "--error", "no such file")["status"] == "failed"
    assert loop.ask("snooze", later, "--for", "1h")["status"] == "scheduled"
    assert "may not act for worker" in loop.refuse("done", others, code=6)
    assert "needs the scope admin" in loop.refuse("done", others, "--force", code=6)
    assert "needs the scope admin" in loop.refuse("done", server.shell.add(), code=6)
    assert server.shell.ask("show", others)["status"] == "active"


def test_beats_and_outcomes_wait_until_the_api_is_back(server: Server, remote: Store, local: Store) -> None:
    worker = remote.workers.register("loop").id
    claim = remote.claims.claim(remote.jobs.add(NewJob("A")).id, worker)
    server._env["ROTA_HTTP_PORT"] = server.url.rpartition(":")[2]
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    settling = threading.Thread(target=lambda: remote.claims.settle(claim, Done(None)))
    settling.start()
    with pytest.raises(errors.StoreAway, match="out of reach"):
        open_store(server.url, Settings()).jobs.add(NewJob("B"))
    server.start()
    settling.join(30)
    assert local.jobs.get(claim.job_id).status == "done"
    assert remote.workers.heartbeat(worker) == "continue"


def test_the_wait_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PATIENCE", 0.5)
    with open_store("http://127.0.0.1:1", Settings()) as store, pytest.raises(errors.StoreAway):
        store.workers.heartbeat("worker-00000000")


def test_a_connection_that_was_closed_in_between_is_made_anew(server: Server, remote: Store) -> None:
    remote.jobs.add(NewJob("A"))
    server._env["ROTA_HTTP_PORT"] = server.url.rpartition(":")[2]
    server.stop()
    server.start()
    assert remote.jobs.add(NewJob("B")).id == 2


class Rude:
    """Something that listens, reads one request, says these bytes, and hangs up."""

    def __init__(self, says: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._says = says
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(self._says)

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize(
    ("says", "adding", "reading", "told"),
    [
        (b"", errors.InDoubt, errors.StoreAway, "may have been done, or not"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
            errors.InDoubt,
            errors.StoreAway,
            "may have been done, or not",
        ),
        (b"SSH-2.0\r\n\r\n", errors.InDoubt, errors.StoreAway, "not HTTP"),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 2\r\n\r\nno", errors.StoreAway, errors.StoreAway, "answers 502"),
        (b"HTTP/1.1 404 No\r\n\r\n<html>", errors.StoreError, errors.StoreError, "is its address right"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", errors.StoreError, errors.StoreError, "is its address right"),
        (
            b'HTTP/1.1 400 No\r\nContent-Type: application/problem+json\r\n\r\n{"title": "blocked"}',
            errors.StoreError,
            errors.StoreError,
            "not an answer of rota's",
        ),
    ],
)
def test_a_link_that_breaks_is_told_honestly(
    says: bytes, adding: type[RotaError], reading: type[RotaError], told: str
) -> None:
    rude = Rude(says)
    with open_store(rude.url, Settings()) as store:
        with pytest.raises(RotaError, match=told) as found:
            store.jobs.add(NewJob("A"))
        assert type(found.value) is adding
        with pytest.raises(RotaError) as found:
            store.jobs.get(1)
        assert type(found.value) is reading
    rude.close()


def test_an_answer_in_chunks_is_read_as_one() -> None:
    body = b'5;x=y\r\n{"ids\r\n6\r\n":[7]}\r\n0\r\nTrailer: a\r\n\r\n'
    rude = Rude(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    with open_store(rude.url, Settings()) as store:
        assert store.jobs.add_many([NewJob("A")]) == [7]
    rude.close()


def test_who_follows_takes_no_sign_of_life_for_news() -> None:
    signs = b"event: alive\ndata:\n\nevent: alive\ndata: {}\n\n"
    rude = Rude(b"HTTP/1.1 200 OK\r\n\r\n" + signs + b'id: 7\ndata: {"id": "7"}\n\n' + signs)
    with open_store(rude.url, Settings()) as store:
        found = feed.follow(store, ["queue:jobs"])
        assert [next(found), next(found)] == [{"id": "7"}, {"id": "7"}], "of two streams, because each breaks"
    rude.close()


def test_addresses() -> None:
    assert address_of("http://box").port == 8356 and address_of("https://box").port == 443
    assert address_of("http://[::1]:90/shop/").base == "/shop/api/v1" and address_of("http://[::1]:90").host == "::1"
    assert address_of("http://a@box", "b").token == "a" and address_of("http://box", "b").token == "b"
    for bad in ("http://", "http://box:none", "http://box:70000", "http://b ox", "http://box/?a=1"):
        with pytest.raises(errors.BadInput, match="write for example http"):
            address_of(bad)
    with pytest.raises(errors.BadInput, match="not an access token"):
        address_of("http://box", "a\r\nX: y")


def test_tls_is_spoken_with_who_proves_to_be_the_host(tmp_path: Path, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    server = Server(tmp_path, ROTA_HTTP_CERT=cert, ROTA_HTTP_KEY=key)
    url = server.url.replace("127.0.0.1", "localhost")
    elsewhere = server.shell.exporting(ROTA_DB=url, ROTA_TOKEN=server.secret)
    try:
        assert url.startswith("https://")
        assert "certificate" in elsewhere.refuse("list", code=1).lower()
        assert elsewhere.exporting(SSL_CERT_FILE=cert).ask("add", "A")["id"] == 1
    finally:
        server.end()


def test_what_the_api_does_not_offer_is_refused_by_name(server: Server) -> None:
    elsewhere = server.shell.exporting(ROTA_DB=server.url, ROTA_TOKEN=server.secret)
    for words in (["migrate"], ["serve"]):
        told = elsewhere.call(*words)
        assert told.returncode in (2, 6) and "where the database is" in told.stderr, told
    elsewhere.call("logs", elsewhere.add())


def test_a_store_is_looked_after_from_elsewhere(server: Server) -> None:
    elsewhere = server.shell.exporting(ROTA_DB=server.url, ROTA_TOKEN=server.secret)
    id = elsewhere.add()
    elsewhere.say("done", id, "--force")
    found = {finding["about"]: finding["level"] for finding in elsewhere.ask("doctor")}
    assert found == dict.fromkeys(("folder", "app", "API", "clock", "workers", "jobs"), "ok")
    assert elsewhere.ask("prune", "--older", "1d")["jobs"] == 0
    assert elsewhere.ask("prune", "--keep", "0")["jobs"] == 1 and elsewhere.ask("list") == []
    assert "out of reach" in server.shell.exporting(ROTA_DB="http://127.0.0.1:1").say("doctor", code=1)


def test_people_govern_a_crew_over_http(server: Server) -> None:
    elsewhere = server.shell.exporting(ROTA_DB=server.url, ROTA_TOKEN=server.secret)
    assert elsewhere.say("scale", "tag=2") == "tag scaled to 2"
    there, here = elsewhere.ask("orchestrator", "status", code=6), server.shell.ask("orchestrator", "status", code=6)
    assert there["slots"] == here["slots"] != []
    assert elsewhere.ask("why", "worker:tag:0") == server.shell.ask("why", "worker:tag:0")
    assert elsewhere.say("reset", "worker:tag:0") == "worker:tag:0 reset"
    assert "no orchestrator of crew main" in elsewhere.refuse("drain", code=6)


def test_a_browser_is_let_in_from_elsewhere(server: Server) -> None:
    elsewhere = server.shell.exporting(ROTA_DB=server.url, ROTA_TOKEN=server.secret)
    link = elsewhere.ask("open")["link"]
    assert link.startswith(f"{server.url}/open?code=")
    assert server.stranger().call("GET", link).status_code == 303


def test_a_change_wakes_who_listens(remote: Store, server: Server) -> None:
    listener = remote.database.listen()
    assert listener.fileno() >= 0
    while listener.wait(0.3):
        pass
    server.shell.add()
    assert listener.wait(10)
    listener.close()
    waiting: list[str] = []
    id = remote.jobs.add(NewJob("A")).id
    thread = threading.Thread(target=lambda: waiting.extend(job.status for job in remote.jobs.wait([id])))
    thread.start()
    server.shell.say("done", id, "--force")
    thread.join(10)
    eventually(lambda: waiting == ["done"])


def test_a_result_that_is_not_kept_is_told_from_one_that_is(remote: Store) -> None:
    claim = remote.claims.claim(remote.jobs.add(NewJob("a job")).id)
    assert remote.claims.settle(claim, Done('{"a": 1}'))
    assert remote.claims.settle(claim, Done('{"a":1}')), "as when the first answer was lost"
    assert not remote.claims.settle(claim, Done('{"b":2}'))
