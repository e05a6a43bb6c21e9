"""Silence that means nothing, and a store that is away: what the page makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from rota.store.workers.crews import Home
from tests.api.servers import Server
from tests.support.postgres import own
from tests.support.shell import Shell
from tests.web.conftest import windows
from tests.web.screens import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.web.conftest import Look

# The page's clock is the test's, and it looks for silence all the time; `heard` counts what another reader is told.
OTHER_TIMES = """
window.ahead = 0; window.looks = 0; window.heard = 0;
const [now, every] = [Date.now.bind(Date), window.setInterval.bind(window)];
Date.now = () => now() + window.ahead;
const looked = act => () => { window.looks += 1; act(); };
window.setInterval = (act, after) => after === 5000 ? every(looked(act), 20) : every(act, after);
new EventSource("api/v1/events?topics=queue:jobs").addEventListener("alive", () => { window.heard += 1; });
"""


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Server]:
    """A server that keeps streams alive every fifth of a second."""
    server = Server(tmp_path, change="from rota.api.stream import hub; hub.KEEP_ALIVE = 0.2")
    yield server
    server.end()


def test_an_idle_page_stays_on_its_one_connection(browser: Browser, hasty: Server) -> None:
    asked: list[str] = []
    with windows(browser, lambda: hasty.shell.say("open")) as look:
        screen = look()
        screen.page.add_init_script(OTHER_TIMES)
        screen.page.reload()
        expect(screen.page.get_by_role("navigation").get_by_text("healthy")).to_be_visible()
        screen.page.on("request", lambda request: asked.append(request.url))
        for _ in range(4):
            heard = screen.page.evaluate("window.looks = 0, window.heard")
            screen.page.wait_for_function("before => window.heard > before + 1 && window.looks > 1", arg=heard)
            screen.page.evaluate("window.ahead += 30000")
        assert [url for url in asked if "/events?" in url] == []


def test_a_queue_without_any_live_worker_is_told_on_every_page(server: Server, view: Look) -> None:
    with server.store() as store:
        store.orchestrators.join("main", Home("far/1", "far", 4242, None))
        store.slots.take("main", "far/1", dict.fromkeys(("scan", "tag", "write"), 1))
    screen = view()
    for place in PAGES:
        screen.go(place)
        expect(screen.page.locator("main h1")).to_be_visible()
        said = "queue scan has no live worker; queue tag has no live worker; and 1 more"
        expect(screen.page.get_by_role("alert").filter(has_text=said)).to_be_visible()


def test_a_store_that_is_away_is_told_over_what_was_seen_before(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with own() as database:
        shell = Shell(tmp_path, ROTA_DB=database.url)
        shell.make()
        job = shell.ask("add", "A")["id"]
        server = Server(tmp_path, ROTA_DB=database.url)
        with windows(browser, lambda: shell.say("open")) as look:
            screen = look()
            screen.go(f"jobs/{job}")
            expect(screen.fact("State")).to_have_text("ready")
            database.crash()
            banner = screen.page.get_by_role("alert").filter(has_text="The store does not answer")
            expect(banner).to_be_visible()
            expect(banner).to_contain_text("out of reach")
            expect(screen.page.get_by_role("alert")).to_have_count(1)
            expect(screen.fact("State")).to_have_text("ready")
            database.start()
            expect(banner).to_have_count(0)
            shell.say("cancel", str(job))
            expect(screen.fact("State")).to_have_text("cancelled")
            expect(screen.page.get_by_role("alert")).to_have_count(0)
        server.end()
