"""One browser for all tests of a file; a window, a crew or a server for each test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import sync_playwright

from tests.api.servers import Server
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.web.screens import CHROMIUM, FLAGS, Screen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    Look = Callable[..., Screen]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def windows(browser: Browser, link: Callable[[], str]) -> Iterator[Look]:
    opened: list[Screen] = []

    def look(given: str | None = None, **how: Any) -> Screen:
        opened.append(Screen(browser, given or link(), **how))
        return opened[-1]

    yield look
    for screen in opened:
        screen.close()


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    """A crew with an API."""
    crew = Crew(tmp_path, ROTA_RESTART_BACKOFF="50ms", ROTA_HTTP_PORT="0")
    yield crew
    crew.end()


@pytest.fixture
def look(browser: Browser, crew: Crew) -> Iterator[Look]:
    """Opens a window on the crew with a link of its own."""
    address = crew.folder / ".rota" / "rota.db.http"

    def link() -> str:
        eventually(address.exists)
        return crew.call("open").strip()

    with windows(browser, link) as look:
        yield look


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.end()


@pytest.fixture
def view(browser: Browser, server: Server) -> Iterator[Look]:
    """Opens a window on a server without a crew."""
    with windows(browser, lambda: server.shell.say("open")) as look:
        yield look
