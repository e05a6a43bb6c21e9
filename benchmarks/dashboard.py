"""How quick the dashboard is in a real browser: its first paint, an idle tab, a million jobs and ten thousand slots.

    ./dev bench dashboard

A server with nothing else to do, Chromium beside it on the same machine. CPU is what the page's own process spent, of
one core. A long task is one that keeps the page from answering for 50 ms or more.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

from playwright.sync_api import expect, sync_playwright

from benchmarks import _fill, _report
from benchmarks.http import ROTA
from rota.core.job import NewJob
from rota.process.host import host_id
from rota.settings import Settings
from rota.store.open import open_store
from tests.web.screens import CHROMIUM, FLAGS, Screen

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession

    from rota.store.store import Store

PATIENCE = 30_000
WATCH = """() => { window.longest = 0; new PerformanceObserver(list => {
    for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration) })
    .observe({type: 'longtask'}) }"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def busy_seconds(devtools: CDPSession) -> float:
    found = {each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def share(screen: Screen, seconds: float) -> float:
    """How much of a core the page takes while it is left alone, in percent."""
    devtools = screen.page.context.new_cdp_session(screen.page)
    devtools.send("Performance.enable")
    time.sleep(3)
    before, began = busy_seconds(devtools), time.monotonic()
    time.sleep(seconds)
    return 100 * (busy_seconds(devtools) - before) / (time.monotonic() - began)


def milliseconds(screen: Screen, do: str, seen: str) -> float:
    """How long until the page shows something, after it was asked for."""
    began = time.perf_counter()
    screen.page.evaluate(do)
    expect(screen.page.locator(seen).first).to_be_visible(timeout=PATIENCE)
    return (time.perf_counter() - began) * 1e3


def look(browser: Browser, link: str, store: Store, seconds: float) -> dict[str, _report.Cell]:
    screen = Screen(browser, link)
    screen.heading("Overview")
    screen.page.wait_for_function(PAINTED)
    row: dict[str, _report.Cell] = {"first paint ms": screen.page.evaluate(PAINTED)}
    row["idle tab %"] = share(screen, seconds)
    screen.page.evaluate(WATCH)
    row["jobs ms"] = milliseconds(screen, "location.hash = '#/jobs'", "main table tbody tr")
    row["search ms"] = milliseconds(
        screen, "location.hash = '#/jobs?search=job%2077'", "main table tbody tr:has-text('job 77')"
    )
    row["slots ms"] = milliseconds(screen, "location.hash = '#/workers'", "main .cell")
    screen.go("overview")
    screen.heading("Overview")
    for n in range(20):
        store.jobs.add(NewJob(f"live {n}", "q"))
        time.sleep(0.1)
    row["longest task ms"] = screen.page.evaluate("window.longest")
    screen.close()
    return row


def measure(jobs: int, slots: int, seconds: float) -> dict[str, _report.Cell]:
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        path = os.path.join(folder, ".rota", "rota.db")
        os.mkdir(os.path.dirname(path))
        environment = {**os.environ, "ROTA_DB": path}
        with open_store(path, Settings(), make=True) as store:
            _fill.prepare(store)
            _fill.fill(path, 0, jobs // 5, lambda _: None)
            store.slots.take("main", host_id(), {"q": slots})
            words = [ROTA, "serve", "--port", "0"]
            with subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
                try:
                    assert server.stdout is not None
                    server.stdout.readline()
                    link = subprocess.check_output([ROTA, "open"], cwd=folder, env=environment, text=True).strip()
                    with sync_playwright() as playwright:
                        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                        row = look(browser, link, store, seconds)
                        browser.close()
                finally:
                    server.terminate()
    return {"jobs": jobs, "slots": slots, **row}


def main() -> None:
    parser = _report.arguments("How quick the dashboard is in a real browser.")
    parser.add_argument("--jobs", type=int, default=1_000_000, help="how many jobs there are at the most")
    parser.add_argument("--slots", type=int, default=10_000, help="how many slots at the most")
    parser.add_argument("--seconds", type=float, default=15, help="how long an idle tab is watched")
    options = parser.parse_args()
    sizes = [(1000, 10), (options.jobs, 10), (options.jobs, options.slots)]
    table = [measure(jobs, slots, options.seconds) for jobs, slots in sizes]
    _report.show("dashboard: a real browser beside the server", table, options.json)


if __name__ == "__main__":
    main()
