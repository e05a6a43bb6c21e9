"""Who gets in and what they may, what a job can do to the page (nothing), and a server that is away for a while."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

from rota.core.claim import Failed
from rota.core.job import NewJob
from tests.http.servers import Server
from tests.web.screens import PAGES, Screen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.web.conftest import Look

EVIL = "</pre><script>window.hit = 1</script><img src=x onerror='window.hit = 2'>\"'><svg onload='window.hit = 3'>"


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[Server]:
    """A server that comes back at the same address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Server(tmp_path, ROTA_HTTP_PORT=str(port))
    yield server
    server.end()


def test_nothing_that_a_job_or_a_worker_says_ever_runs(server: Server, view: Look) -> None:
    with server.store() as store:
        worker = store.workers.register(EVIL[:180])
        new = NewJob(EVIL, kind=EVIL[:180], payload={EVIL: [EVIL]}, key=EVIL, limit_key=EVIL, max_attempts=1)
        failed = store.jobs.add(new).id
        claim = store.claims.claim(failed, worker.id)
        written = server.shell.folder / "written"
        written.write_text(EVIL)
        store.claims.capture(claim, str(written), str(written))
        store.claims.settle(claim, Failed(EVIL))
        done = store.jobs.add(NewJob(EVIL, after=[failed])).id
        store.jobs.done(done, {"text": EVIL}, force=True)
        noted = store.jobs.add(NewJob(EVIL)).id
        store.claims.release(store.claims.claim(noted), EVIL)
        store.queues.pause("default", EVIL)
        store.workers.heartbeat(worker.id, {"busy": EVIL})
    screen = view()
    places = [
        *PAGES,
        *(f"jobs/{id}" for id in (failed, done, noted)),
        f"workers/{worker.id}",
        f"jobs?search={EVIL[:20]}",
    ]
    for place in [*places, f"workers/{EVIL}", f"nowhere{EVIL}"]:
        screen.go(place)
        expect(screen.page.locator("main h1")).to_be_visible()
        expect(screen.page.locator("[aria-busy]")).to_have_count(0)
        assert screen.page.evaluate("window.hit") is None, place
        assert screen.page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    screen.go(f"jobs/{failed}")
    screen.heading(EVIL)
    expect(screen.page.get_by_label("Output", exact=True).last).to_contain_text("<script>window.hit = 1</script>")
    expect(screen.panel("Error")).to_contain_text("<script>window.hit = 1</script>")


def test_the_page_lets_no_script_in_but_its_own_and_all_of_it_is_below_150_kb(server: Server) -> None:
    browser = httpx.Client(base_url=server.url)
    browser.get(server.shell.say("open"))
    page = browser.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*src=)|style=|\son\w+=", page.text), "nothing inline"
    assert page.headers["cache-control"] == "no-store"
    files = re.findall(r'(?:src|href)="(assets/[^"]+)"', page.text)
    assert len(files) == 3
    size = 0
    for file in files:
        answer = httpx.get(f"{server.url}/{file}")
        assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-encoding"] == "gzip" and re.search(r"-[0-9a-f]{12}\.", file)
        plain = httpx.get(f"{server.url}/{file}", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers and plain.content == answer.content
        size += len(plain.content)
    assert 50_000 < size < 150_000
    browser.close()


def test_who_comes_without_a_session_is_told_what_to_do(server: Server, browser: Browser) -> None:
    stranger = browser.new_page()
    for path in ("/", "/open?code=nonsense"):
        answer = stranger.goto(f"{server.url}{path}")
        assert answer is not None and answer.status == 401
        expect(stranger.get_by_text("rota open")).to_be_visible()
    assert httpx.get(server.url).headers["content-type"] == "application/problem+json", "a program gets the problem"
    stranger.close()


def test_a_readers_token_sees_everything_and_no_button(server: Server, view: Look) -> None:
    job = server.shell.ask("add", "A")["id"]
    reader = server.client(server.token("reader", "read"))
    screen = view(reader.post("/api/v1/codes")["link"])
    for place in [*PAGES, f"jobs/{job}"]:
        screen.go(place)
        expect(screen.page.locator("main h1")).to_be_visible()
        expect(screen.page.locator("[aria-busy]")).to_have_count(0)
        expect(screen.page.locator("main").get_by_role("button")).to_have_count(0)
    screen.heading("A")
    status = screen.page.evaluate(
        """id => fetch(`api/v1/jobs/${id}/cancel`, {method: "POST", body: "{}",
            headers: {"Content-Type": "application/json"}}).then(answer => answer.status)""",
        job,
    )
    assert status == 403


def test_a_server_that_is_away_is_shown_and_one_that_is_back_is_followed(lasting: Server, browser: Browser) -> None:
    ghost = lasting.shell.ask("worker", "register", "--name", "ghost")["id"]
    screen = Screen(browser, lasting.shell.say("open"))
    screen.page.evaluate("window.mark = true")
    screen.go("workers")
    screen.sees("ghost")
    lasting.stop()
    banner = screen.page.get_by_role("alert").filter(has_text="The server does not answer")
    expect(banner).to_be_visible()
    lasting.shell.say("worker", "deregister", ghost)
    lasting.shell.say("worker", "register", "--name", "newcomer")
    lasting.start()
    expect(banner).to_have_count(0)
    screen.sees("newcomer")
    screen.sees_no("ghost")
    assert screen.page.evaluate("window.mark") is True, "the page was not loaded again"
    screen.close()


def test_a_session_that_is_over_says_so(lasting: Server, browser: Browser) -> None:
    screen = Screen(browser, lasting.shell.say("open"))
    screen.heading("Overview")
    (token,) = lasting.shell.ask("token", "list")
    lasting.shell.say("token", "revoke", token["id"])
    screen.sees("This session is over")
    expect(screen.page.get_by_role("navigation")).to_have_count(0)
    screen.close()


def test_a_session_is_signed_and_of_no_use_elsewhere(server: Server) -> None:
    browser = httpx.Client(base_url=server.url)
    browser.get(server.shell.say("open"))
    session = browser.cookies["rota_session"]
    id, until, signature = session.rsplit(".", 2)
    longer = f"{id}.{int(until) + 1}.{signature}"
    for forged in (longer, f"{id}.{until}.", f"{id}.{until}.{'0' * 64}", session.upper(), "", "..", "é"):
        cookie = {"Cookie": f"rota_session={forged}".encode()}
        assert httpx.get(f"{server.url}/api/v1/jobs", headers=cookie).status_code == 401  # type: ignore[arg-type]
    assert json.loads(browser.get("/api/v1/me").text)["scopes"] == ["admin"]
    browser.close()
