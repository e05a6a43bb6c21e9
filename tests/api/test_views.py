"""What those who look get over HTTP: who they are, what needs attention, deaths, pace, output, tracking, graphs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from rota.api.routes import overview
from rota.api.routes.runs import whole
from rota.api.schemas import responses
from rota.core.claim import Done
from rota.core.job import NewJob
from rota.core.worker import Dead
from rota.process.host import host_id
from rota.settings import Settings
from rota.store.open import open_store
from rota.tracking.connections import opened
from rota.tracking.schema import install
from tests.api.servers import Server
from tests.support.eventually import eventually
from tests.support.postgres import shared as postgres
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.store import Store


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server over each kind of database."""
    if request.param == "sqlite":
        server = Server(tmp_path)
        yield server
        server.end()
        return
    with postgres().database() as url:
        server = OnPostgres(tmp_path, url)
        yield server
        server.end()


class OnPostgres(Server):
    """The same server over PostgreSQL."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url_of_database = url
        Shell(folder, ROTA_DB=url).make()
        super().__init__(folder, ROTA_DB=url)

    @property
    def secret(self) -> str:
        with self.store() as store:
            return Path(f"{store.database.beside}.token").read_text().strip()

    def store(self) -> Store:
        return open_store(self.url_of_database, Settings())


ELSEWHERE = """
import os
here = list(os.uname())
os.uname = lambda: os.uname_result([here[0], "elsewhere", *here[2:]])
"""


@pytest.mark.postgres
def test_apis_on_two_hosts_of_one_database_each_keep_their_token(tmp_path: Path) -> None:
    with postgres().database() as url:
        servers = []
        for name, change in (("one", ""), ("two", ELSEWHERE)):
            (tmp_path / name).mkdir()
            env = {"ROTA_DB": url, "XDG_RUNTIME_DIR": str(tmp_path / name)}
            Shell(tmp_path / name, **env).make()
            servers.append(Server(tmp_path / name, change=change, **env))
        for server in servers:
            assert server.client().get("/api/v1/me")["scopes"] == ["admin"]
        for server in servers:
            server.end()


def test_every_view_has_exactly_the_fields_of_its_type(either: Server) -> None:
    with either.store() as store:
        job = store.jobs.add(NewJob("A", "tag")).id
        later = store.jobs.add(NewJob("B", "tag", after=[job])).id
        store.queues.set("tag", breaker=1)
        claim = store.claims.claim(job)
        written = either.shell.folder / "written"
        written.write_text("said\n")
        store.claims.capture(claim, str(written), None)
        store.claims.settle(claim, Done())
        worker = store.workers.register("loop").id
        store.orchestrators.mark_dead(worker, Dead("signaled", "ended by signal 9"))
    client = either.client()
    paths = {
        "/api/v1/me": responses.Me,
        "/api/v1/attention": responses.Notice,
        "/api/v1/deaths": responses.Death,
        "/api/v1/pace": responses.Throughput,
        f"/api/v1/jobs/{later}/graph": responses.Graph,
        f"/api/v1/jobs/{job}/output": responses.Output,
        "/api/v1/tracking": responses.Tracking,
    }
    for path, shape in paths.items():
        answer = client.get(path)
        for document in answer if isinstance(answer, list) else [answer]:
            msgspec.convert(document, shape)
            assert tuple(document) == shape.__struct_fields__, path
    assert [death["worker_id"] for death in client.get("/api/v1/deaths")] == [worker]
    assert client.get("/api/v1/deaths?slot=worker:tag:0") == []
    assert client.get(f"/api/v1/jobs/{later}/graph")["edges"] == [[later, job]]
    with either.store() as store:
        both = store.jobs.add(NewJob("C", "tag", after=[job, later])).id
    graph = client.get(f"/api/v1/jobs/{later}/graph")
    assert graph["edges"] == [[later, job], [both, job], [both, later]], "also between what was found on different ways"
    assert graph["is_whole"]
    assert client.get(f"/api/v1/jobs/{job}/output")["text"] == "said\n"
    assert [job["title"] for job in client.get("/api/v1/jobs?search=B")] == ["B"]
    assert sum(client.get("/api/v1/pace")["finished"]) in (0, 1), "the step may not be over yet"


def test_a_link_opens_either_kind_of_database(either: Server) -> None:
    db = {"ROTA_DB": either.url_of_database} if isinstance(either, OnPostgres) else {}
    link = Shell(either.shell.folder, **db).say("open")
    with httpx.Client(follow_redirects=True) as browser:
        assert "<title>rota</title>" in browser.get(link).text
        assert browser.get(f"{either.url}/api/v1/jobs").json() == []


def test_attention_is_what_the_store_says(server: Server) -> None:
    assert server.client().get("/api/v1/attention") == []
    with server.store() as store:
        store.slots.take("main", host_id(), {"tag": 1})
        with store.write() as tx:
            now = tx.now
            tx.execute("slot.remember", name="worker:tag:0", restarts="[]", lifetime=6, failed_at=now,
                       failure_reason="died 6 times", unstarted=0, now=now)  # fmt: skip
    (notice,) = server.client().get("/api/v1/attention")
    assert (notice["noun"], notice["which"]) == ("slot", "worker:tag:0") and notice["since"].endswith("Z")
    for _ in range(2):
        server.shell.say("fail", server.shell.add("A", "--queue", "tag"), "--error", "no ink", "--final", "--force")
    failures = server.client().get("/api/v1/attention")[1]
    assert (failures["noun"], failures["which"], failures["text"]) == ("failures", "tag", "2 jobs failed: no ink")


def test_the_pace_counts_what_ends_while_somebody_listens_and_what_ended_before(server: Server) -> None:
    client = server.client()

    def work(count: int) -> None:
        with server.store() as store:
            for _ in range(count):
                store.claims.settle(store.claims.claim(store.jobs.add(NewJob("A", "tag")).id), Done())

    def finished(least: int) -> int:
        """How many ended, once the step in which the last of them did is over."""

        def told() -> int:
            count: int = sum(client.get("/api/v1/pace")["finished"])
            return count if count >= least else 0

        return eventually(told)

    work(3)
    with client.events("queue:status") as events:
        events.next(type="snapshot")
        assert finished(3) == 3
        work(4)
        assert finished(7) == 7
    assert finished(7) == 7, "from the log, when nobody listens"


class Written:
    """A job whose live run writes to a file of the test's."""

    def __init__(self, server: Server) -> None:
        self.file = server.shell.folder / "written"
        self._store = server.store()
        self.job = self._store.jobs.add(NewJob("loud")).id
        self._claim = self._store.claims.claim(self.job)
        self._store.claims.capture(self._claim, str(self.file), str(self.file))
        self.path = f"/api/v1/jobs/{self.job}/output"

    def end(self) -> None:
        self._store.claims.settle(self._claim, Done())
        self._store.close()


def test_output_is_read_in_parts_from_its_end_or_from_an_offset(server: Server) -> None:
    written, client = Written(server), server.client()
    assert client.get(written.path)["text"] == "" and client.get(written.path)["is_live"]
    written.file.write_text("0123456789")
    tail = client.get(f"{written.path}?limit=4")
    assert (tail["text"], tail["offset"], tail["next"], tail["size"]) == ("6789", 6, 10, 10)
    part = client.get(f"{written.path}?offset=2&limit=3&stream=stderr")
    assert (part["text"], part["next"]) == ("234", 5)
    assert client.get(f"{written.path}?offset=99")["text"] == "0123456789", "a file that was written anew"
    written.end()
    over = client.get(f"{written.path}?offset=10")
    assert (over["text"], over["is_live"]) == ("", False)
    written.file.unlink()
    assert "is gone" in client.refused(404, "GET", written.path)["detail"]
    assert (
        "has not run yet"
        in client.refused(404, "GET", f"/api/v1/jobs/{server.shell.ask('add', 'B')['id']}/output")["detail"]
    )


def test_whoever_waits_for_output_gets_it_when_it_comes_or_when_the_run_ends(server: Server) -> None:
    written, client = Written(server), server.client()
    written.file.write_text("first")
    answers: list[Any] = []

    def ask(offset: int) -> threading.Thread:
        waiting = threading.Thread(target=lambda: answers.append(client.get(f"{written.path}?offset={offset}&wait=25")))
        waiting.start()
        return waiting

    waiting = ask(5)
    with written.file.open("a") as file:
        file.write("second")
    waiting.join(20)
    assert answers[0]["text"] == "second"
    waiting = ask(11)
    written.end()
    waiting.join(20)
    assert (answers[1]["text"], answers[1]["is_live"]) == ("", False)


def test_the_command_line_shows_and_follows_output_from_elsewhere(server: Server, tmp_path: Path) -> None:
    written = Written(server)
    long = "0123456789" * 60_000  # more than one part
    written.file.write_text(long)
    (tmp_path / "elsewhere").mkdir()
    shell = Shell(tmp_path / "elsewhere", ROTA_DB=server.url, ROTA_TOKEN=server.secret)
    assert shell.say("logs", written.job) == long
    told = shell.ask("logs", written.job, "--stderr")
    assert (told["run_id"], told["stream"], told["size"]) == ("run-00000001", "stderr", len(long))
    answers: list[str] = []
    follower = threading.Thread(target=lambda: answers.append(shell.say("logs", written.job, "--follow")))
    follower.start()
    with written.file.open("a") as file:
        file.write(" and more")
    written.end()
    follower.join(60)
    assert answers == [f"{long} and more"]
    assert "has not run yet" in shell.call("logs", server.shell.ask("add", "B")["id"]).stderr


def test_output_of_another_host_is_there(server: Server) -> None:
    client = server.client()
    with server.store() as store:
        written = server.shell.folder / "written"
        written.write_text("text")
        worker = store.workers.register("loop").id
        job = store.jobs.add(NewJob("A")).id
        claim = store.claims.claim(job, worker)
        store.claims.capture(claim, str(written), None)
        store.claims.settle(claim, Done())
        execute(store, f"UPDATE worker SET host = 'elsewhere', hostname = 'bee' WHERE id = '{worker}'")
    told = client.refused(404, "GET", f"/api/v1/jobs/{job}/output")["detail"]
    assert "was on bee" in told and f"rota logs {job}" in told
    written.unlink()
    assert told in server.shell.call("logs", job).stderr


def execute(store: Any, text: str) -> None:
    with store.database.write():
        store.database._connection.execute(text)


@pytest.mark.parametrize(
    ("data", "last", "kept"),
    [
        ("aé".encode(), False, "aé".encode()),
        ("aé".encode()[:2], False, b"a"),
        ("a€".encode()[:3], False, b"a"),
        ("a𝄞".encode()[:4], False, b"a"),
        ("a𝄞".encode()[:4], True, "a𝄞".encode()[:4]),
        (b"\xff\xff", False, b"\xff"),
        (b"\x80\x80\x80\x80\x80", False, b"\x80\x80\x80\x80\x80"),
        (b"", False, b""),
    ],
)
def test_a_character_is_never_cut_in_two_unless_nothing_more_comes(data: bytes, last: bool, kept: bytes) -> None:
    assert whole(data, last) == kept


@pytest.mark.postgres
def test_tracking_is_off_until_its_tables_are_there(tmp_path: Path) -> None:
    with postgres().database() as url:
        server = Server(tmp_path, ROTA_TRACKING=url)
        assert server.client().get("/api/v1/tracking")["enabled"] is False
        with opened(url) as connection:
            install(connection)
            connection.execute("INSERT INTO ai.vectorizer (source_table) VALUES ('blog')")
        told = server.client().get("/api/v1/tracking")
        assert told["enabled"] and [each["source_table"] for each in told["vectorizers"]] == ["blog"]
        printed = server.shell.ask("tracking", "status", "--db", url)
        assert {name: value for name, value in told.items() if name != "enabled"} == printed
        elsewhere = Shell(tmp_path, ROTA_DB=server.url, ROTA_TOKEN=server.secret)
        assert elsewhere.ask("tracking", "status") == printed
        assert elsewhere.say("tracking", "status") == server.shell.say("tracking", "status", "--db", url)
        assert "0 of 0 workers live" in elsewhere.say("tracking", "status", "--limit", "1")
        server.end()


def test_the_routes_of_views_are_all_described_here() -> None:
    shown = {route.path for route in (*overview.ATTENTION, *overview.THROUGHPUT, *overview.TRACKING)}
    assert shown == {"/api/v1/attention", "/api/v1/deaths", "/api/v1/pace", "/api/v1/tracking"}
