"""`rota serve`, `rota open` and `rota token`: the door, its keys, and what is left when it closes."""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import stat
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.api.servers import Server
from tests.support.eventually import eventually
from tests.support.shell import Shell, call_process, environment
from tests.support.stores import STORES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.end()


def beside(shell: Shell) -> set[str]:
    """The files beside the database, its own left out."""
    own = ("rota.db", "rota.db-wal", "rota.db-shm", "rota.db.lock", "rota.db.notify", "rota.db.events")
    return set(os.listdir(shell.folder / ".rota")) - set(own)


def test_serve_makes_a_token_and_a_link_and_leaves_nothing_but_the_token(shell: Shell) -> None:
    assert "`rota init` makes one" in shell.refuse("serve", "--port", 0, code=3)
    shell.make()
    serving = shell.start("serve", "--port", 0)
    assert serving.stdout is not None
    answers, link = (serving.stdout.readline() for _ in range(2))
    (url,) = re.findall(r"rota answers at (http://127\.0\.0\.1:\d+)\n", answers)
    assert beside(shell) == {"rota.db.token", "rota.db.http"}
    for name in beside(shell):
        assert stat.S_IMODE((shell.folder / ".rota" / name).stat().st_mode) == 0o600
    followed = httpx.get(re.findall(r"http\S+", link)[0])
    assert (followed.status_code, followed.headers["location"]) == (303, "/")
    eventually(lambda: httpx.get(f"{url}/readyz").status_code == 200)
    serving.terminate()
    assert serving.communicate(timeout=20) == ("", "") and serving.returncode == 0
    assert beside(shell) == {"rota.db.token"}


@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_ends_it_in_peace(server: Server, number: int) -> None:
    assert server.process is not None
    server.process.send_signal(number)
    assert server.process.wait(20) == 0
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_in_the_first_moment_ends_it_in_peace_too(shell: Shell, number: int) -> None:
    shell.make()
    serving = shell.start("serve", "--port", 0)
    assert serving.stdout is not None and "answers at" in serving.stdout.readline()
    serving.send_signal(number)
    assert serving.communicate(timeout=20)[1] == "" and serving.returncode == 0
    assert beside(shell) == {"rota.db.token"}


def test_the_token_beside_the_database_is_used_again_and_replaced_when_it_opens_nothing(server: Server) -> None:
    first = server.secret
    server.stop()
    server.start()
    assert server.secret == first
    (token,) = server.shell.ask("token", "list")
    assert (token["name"], token["scopes"]) == ("local", ["admin"])
    server.shell.say("token", "revoke", token["id"])
    server.client(first).refused(401, "GET", "/api/v1/jobs")
    server.stop()
    server.start()
    assert server.secret != first and server.client().get("/api/v1/jobs") == []
    (server.shell.folder / ".rota" / "rota.db.token").unlink()
    server.stop()
    server.start()
    living = [each for each in server.shell.ask("token", "list") if each["revoked_at"] is None]
    assert [each["name"] for each in living] == ["local"] and server.client().get("/api/v1/jobs") == []


def test_the_secret_is_kept_nowhere_but_in_its_file(server: Server) -> None:
    secret = server.token("ci", "read")
    server.client(secret).get("/api/v1/jobs")
    server.client().get("/api/v1/tokens")
    server.stop()
    for name in os.listdir(server.shell.folder / ".rota"):
        data = (server.shell.folder / ".rota" / name).read_bytes()
        assert secret.encode() not in data
        assert name == "rota.db.token" or server.secret.encode() not in data
    assert secret not in server.log.read_text() and server.secret not in server.log.read_text()


def test_a_door_to_other_machines_needs_a_token_that_somebody_made(shell: Shell) -> None:
    shell.make()
    for host in ("0.0.0.0", "::"):
        told = shell.refuse("serve", "--host", host, "--port", 0, code=6)
        assert "there is no access token" in told and "rota token create" in told
    shell.say("token", "create", "ci", "--scope", "read")
    assert "not an address to listen on" in shell.refuse("serve", "--host", "nowhere.invalid", code=6)
    server = Server(shell.folder, ROTA_HTTP_HOST="0.0.0.0", ROTA_HTTP_HOSTS="rota.example, Other.example")
    try:
        assert server.client().call("GET", "/api/v1/jobs", Host="rota.example:1").status_code == 200
        assert server.client().call("GET", "/api/v1/jobs", Host="other.example").status_code == 200
        server.client().refused(421, "GET", "/api/v1/jobs", Host="third.example")
        server.client().refused(421, "GET", "/api/v1/jobs", Host="0.0.0.0")
        server.stranger().refused(401, "GET", "/api/v1/info", Host="rota.example")
    finally:
        server.end()


@pytest.mark.parametrize("kind", STORES)
def test_the_token_that_a_server_made_by_itself_opens_no_door_to_other_machines(tmp_path: Path, kind: str) -> None:
    server = Server(tmp_path, kind=kind)
    try:
        server.stop()
        (made,) = server.shell.ask("token", "list")
        assert made["name"].partition("@")[0] == "local" and made["revoked_at"] is None
        told = server.shell.refuse("serve", "--host", "0.0.0.0", "--port", 0, code=6)
        assert "there is no access token" in told
        for name in ("local", "local@elsewhere"):
            assert "makes by itself" in server.shell.refuse("token", "create", name, "--scope", "read", code=2)
    finally:
        server.end()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--port", "99999"], 2, "at most 65535"),
        (["--port", "x"], 2, "not a whole number"),
        (["--host", "192.0.2.1"], 6, "there is no access token"),
        (["--cert", "c.pem"], 2, "go together"),
        (["--cert", "c.pem", "--key", "k.pem"], 6, "cannot be read"),
    ],
)
def test_nonsense_is_refused_at_start(shell: Shell, words: list[str], code: int, told: str) -> None:
    shell.make()
    assert told in shell.call("serve", *words).stderr
    assert shell.call("serve", *words).returncode == code


def test_a_port_that_is_taken_is_refused(shell: Shell) -> None:
    shell.make()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = shell.refuse("serve", "--port", taken.getsockname()[1], code=4)
    assert "cannot listen on" in told and "--port" in told


def test_open_hands_its_link_to_the_browser(server: Server) -> None:
    shown, browser = server.shell.folder / "shown", server.shell.folder / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {shown}.new\nmv {shown}.new {shown}\n')
    browser.chmod(0o755)
    link = server.shell.exporting(BROWSER=str(browser)).say("open", "--browser")
    eventually(shown.exists)
    assert shown.read_text() == link and link.startswith(f"{server.url}/open?code=")
    assert httpx.get(link).status_code == 303


def test_a_link_opens_a_session_once(server: Server) -> None:
    link = server.shell.say("open")
    assert link.startswith(f"{server.url}/open?code=")
    browser = httpx.Client(base_url=server.url)
    assert browser.get("/").status_code == 401
    answer = browser.get(link)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/;" in cookie and "Secure" not in cookie
    page = browser.get("/")
    assert (
        page.status_code == 200
        and page.headers["content-type"].startswith("text/html")
        and "<title>rota</title>" in page.text
    )
    assert browser.get("/api/v1/jobs").json() == []
    own = {"Origin": server.url}
    assert browser.post("/api/v1/jobs", json={"title": "A"}, headers=own).status_code == 200
    assert (
        browser.post("/api/v1/jobs", json={"title": "A"}, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    )
    for foreign in ({}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert browser.post("/api/v1/jobs", json={"title": "A"}, headers=foreign).status_code == 403
    assert httpx.get(link).status_code == 401, "a link works once"
    assert httpx.get(f"{server.url}/open?code=x").status_code == httpx.get(f"{server.url}/open").status_code == 401

    (token,) = server.shell.ask("token", "list")
    server.shell.say("token", "revoke", token["id"])
    assert browser.get("/api/v1/jobs").status_code == 401, "a session ends with its token"
    browser.close()


def test_whoever_may_only_read_takes_no_link_from_an_admin(server: Server) -> None:
    link, reader = server.shell.say("open"), server.client(server.token("ci", "read"))
    codes = [reader.post("/api/v1/codes")["link"] for _ in range(1100)]
    assert httpx.get(codes[0]).status_code == 401, "its own old ones make room"
    assert httpx.get(codes[-1]).status_code == httpx.get(link).status_code == 303


def test_a_look_at_a_link_does_not_use_it_up(server: Server) -> None:
    link = server.shell.say("open")
    answer = httpx.head(link)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert httpx.get(link).status_code == 303


def test_a_proxy_on_this_host_is_not_this_machine_and_says_what_the_browser_speaks(tmp_path: Path) -> None:
    server = Server(tmp_path, ROTA_HTTP_PROXIES="10.1.0.0/16, 127.0.0.1")
    try:
        for path in ("/metrics", "/api/v1/info"):
            assert server.stranger().refused(401, "GET", path)["code"] == 6
            assert server.client().call("GET", path).status_code == 200
        secure = server.client(**{"X-Forwarded-Proto": "https"})
        link = secure.post("/api/v1/codes")["link"]
        assert link.startswith("https://")
        assert "Secure" in secure.call("GET", f"/open?{link.partition('?')[2]}").headers["set-cookie"]
        plain = server.client(**{"X-Forwarded-Proto": "https, http"}).post("/api/v1/codes")["link"]
        assert plain.startswith("http://"), "what the proxy itself saw comes last"
    finally:
        server.end()


def test_what_a_caller_says_of_a_proxy_is_not_believed(server: Server) -> None:
    forged = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "127.0.0.1"}
    link = server.client(**forged).post("/api/v1/codes")["link"]
    assert link.startswith("http://")
    assert "Secure" not in httpx.get(link, headers=forged).headers["set-cookie"]
    server.stranger(**{"X-Forwarded-Proto": "https"}).refused(401, "GET", "/metrics")


def test_a_code_is_of_use_for_a_minute() -> None:
    from rota.api.auth import CODE_LASTS, SESSION_LASTS, Sessions

    sessions = Sessions()
    late, early = sessions.new_code("token-1", 0.0), sessions.new_code("token-1", 0.0)
    assert sessions.begin(late, CODE_LASTS + 1) is None
    session = sessions.begin(early, CODE_LASTS)
    assert session is not None and sessions.begin(early, CODE_LASTS) is None
    assert sessions.token_of(session, CODE_LASTS) == "token-1"
    assert sessions.token_of(session, CODE_LASTS + SESSION_LASTS + 1) is None
    assert sessions.token_of("", 0) is None
    for _ in range(3000):
        sessions.new_code("token-1", 0.0)
    assert len(sessions._codes) <= 20


def test_open_says_when_nothing_runs(server: Server) -> None:
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    assert "is not running here" in server.shell.refuse("open", code=3)
    server.start()
    server.stop()
    assert "is not running here" in server.shell.refuse("open", code=3)


def test_open_does_not_wait_where_no_orchestrator_runs(shell: Shell) -> None:
    shell.make()
    answer = call_process(["open"], shell.folder, shell.env)
    assert answer.returncode == 3 and "is not running here" in answer.stderr


def test_tokens_are_made_listed_and_revoked(shell: Shell) -> None:
    shell.make()
    assert "no access tokens" in shell.say("token", "list")
    made = shell.call("token", "create", "ci", "--scope", "read", "--scope", "enqueue")
    assert re.fullmatch(r"rota_[a-z0-9]{8}_[0-9a-f]{64}\n", made.stdout) and "only time" in made.stderr
    document = shell.ask("token", "create", "night", "--scope", "work")
    assert document["scopes"] == ["work"] and document["secret"].startswith("rota_")
    assert "enqueue read" in shell.say("token", "list") and made.stdout.strip() not in shell.say("token", "list")
    assert shell.ask("token", "revoke", document["id"])["revoked_at"]
    assert "revoked" in shell.say("token", "list")
    assert "already" in shell.refuse("token", "create", "ci", "--scope", "read", code=4)
    assert shell.ask("token", "create", "night", "--scope", "work")["id"] != document["id"], "a name may be used again"
    assert "no token token-x" in shell.refuse("token", "revoke", "token-x", code=3)
    assert "is not a scope: one of read" in shell.refuse("token", "create", "a", "--scope", "root", code=2)
    assert "needs --scope" in shell.refuse("token", "create", "a", code=2)
    assert "not a token's name" in shell.refuse("token", "create", "a\nb", "--scope", "read", code=2)


def test_tls_is_spoken_with_a_certificate(tmp_path: Path, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    server = Server(tmp_path, ROTA_HTTP_CERT=cert, ROTA_HTTP_KEY=key)
    try:
        assert server.url.startswith("https://") and server.client().get("/api/v1/jobs") == []
        code = server.client().post("/api/v1/codes")["link"]
        assert "Secure" in server.stranger().call("GET", code).headers["set-cookie"]
    finally:
        server.end()


def test_the_store_that_is_away_is_no_end(server: Server) -> None:
    """Reads fail with a problem, the process lives, and all is well when the database is back."""
    path = server.shell.path
    path.rename(path.with_suffix(".away"))
    assert server.stranger().refused(503, "GET", "/readyz")["code"] == 1
    assert server.client().refused(503, "POST", "/api/v1/jobs", {"title": "A"})["code"] == 1
    assert server.stranger().get("/healthz") == {"status": "ok"}
    path.with_suffix(".away").rename(path)
    assert server.stranger().get("/readyz") == {"status": "ok"}


def test_a_stranger_that_keeps_the_write_lock_delays_writers_alone_and_no_stop(server: Server) -> None:
    client = server.client()
    client.get("/api/v1/jobs")
    with open(f"{server.shell.path}.lock", "r+b") as lock, ThreadPoolExecutor() as threads:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = [threads.submit(client.call, "POST", "/api/v1/jobs", {"title": "A"}) for _ in range(4)]
        for _ in range(5):
            assert client.get("/api/v1/jobs") == []
        assert server.stranger().get("/healthz") == {"status": "ok"}
        assert not [each for each in waiting if each.done()]
        assert server.process is not None
        server.process.terminate()
        assert server.process.wait(30) == 0
        assert all(is_refused(each) for each in waiting)
    assert server.shell.ask("list") == []


def is_refused(request: Future[httpx.Response]) -> bool:
    """Whether a request got no answer, or one that says it failed."""
    try:
        return request.result(30).status_code >= 500
    except httpx.TransportError:
        return True


def test_it_is_small(server: Server) -> None:
    """Idle it holds the target of 45 MB; after some work it has room for other systems' libraries."""
    assert resident(server) < 45_000
    client = server.client()
    for _ in range(20):
        client.post("/api/v1/jobs", title="A")
        client.get("/api/v1/jobs")
    server.stranger().call("GET", "/metrics")
    assert resident(server) < 60_000


def resident(server: Server) -> int:
    """Its memory in kB."""
    assert server.process is not None
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def test_no_other_command_imports_the_server(tmp_path: Path) -> None:
    code = """
import json, sys
from rota.cli.main import run
calls = ["init", "add A", "list", "ready", "events", "token list", "queue list", "doctor"]
for words in map(str.split, calls):
    assert run(words) == 0, words
heavy = {"msgspec", "starlette", "uvicorn", "prometheus_client", "asyncio", "anyio"}
print(json.dumps(sorted(heavy & set(sys.modules))))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout.splitlines()[-1]) == []
