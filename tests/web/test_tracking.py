"""The example that embeds rows of a table, as its progress is seen in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from rota.tracking import Tracker
from rota.tracking.connections import opened
from rota.tracking.schema import install
from tests.api.servers import Server
from tests.e2e.test_demo import play
from tests.e2e.test_embed_example import EXAMPLE
from tests.support.postgres import shared
from tests.support.shell import Shell
from tests.web.conftest import windows
from tests.web.test_safety import EVIL, is_harmless

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


def test_the_dashboard_shows_a_source_and_what_its_workers_reported(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with shared().database() as url, monkeypatch.context() as there:
        there.setenv("ROTA_DB", url)
        assert play(tmp_path, str(EXAMPLE)).returncode == 0
        server = Server(tmp_path, ROTA_DB=url)
        with windows(browser, lambda: Shell(tmp_path, ROTA_DB=url).say("open")) as look:
            screen = look()
            screen.go("sources")
            screen.sees("Tracking")
            row = screen.page.get_by_role("region", name="Vectorizers").get_by_role("row").nth(1)
            assert [row.get_by_role("cell").nth(n).inner_text() for n in (1, 3, 4)] == ["note", "198", "4"]
            assert screen.page.get_by_role("region", name="Tracked workers").get_by_role("row").count() == 3
            assert screen.complaints == []
        server.end()


def test_what_a_tracked_worker_says_never_runs(browser: Browser, tmp_path: Path) -> None:
    with shared().database() as url:
        with opened(url) as connection:
            install(connection)
            connection.execute("INSERT INTO ai.vectorizer (source_table) VALUES (%s)", [EVIL])
        with Tracker(url, EVIL) as tracker:
            tracker.error(EVIL)
            tracker.progress(1, 2, EVIL)
        server = Server(tmp_path, ROTA_TRACKING=url)
        with windows(browser, lambda: server.shell.say("open")) as look:
            screen = look()
            is_harmless(screen, "sources")
            for table in ("Vectorizers", "Tracked workers"):
                told = screen.page.get_by_role("region", name=table).get_by_text("<script>window.hit = 1</script>")
                expect(told.first).to_be_visible()
        server.end()
