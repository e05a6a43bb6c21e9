"""The dashboard for everyone: light and dark, wide and narrow, by keyboard, for screen readers, and with very much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from rota.core.claim import Done, Failed
from rota.core.job import NewJob
from rota.process.host import host_id
from tests.api.servers import Server
from tests.web.conftest import windows
from tests.web.screens import AXE, PAGES

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.web.conftest import Look
    from tests.web.screens import Screen

LONG = "a-name-that-is-much-longer-than-anybody-would-want-it-to-be-0123"
MANY = 10_000
TYPE_AT_ONCE = """() => new Promise(settled => {
    new MutationObserver((changes, watch) => {
        const field = document.querySelector("input[type=search]");
        if (!field) return;
        watch.disconnect();
        field.value = "typed";
        field.dispatchEvent(new Event("input", {bubbles: true}));
        requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => settled(field.value), 50)));
    }).observe(document.body, {childList: true, subtree: true});
    location.hash = "#/jobs";
})"""


def fill(server: Server) -> int:
    """A little of everything; the id of a job that failed."""
    with server.store() as store:
        worker = store.workers.register("loop")
        jobs = [store.jobs.add(NewJob(f"{LONG} {LONG} {n}", LONG, LONG, {"n": n}, max_attempts=1)).id for n in range(9)]
        store.claims.settle(store.claims.claim(jobs[0], worker.id), Done('{"ok": true}'))
        store.claims.settle(store.claims.claim(jobs[1], worker.id), Failed(f"{LONG}: no such file"))
        store.claims.claim(jobs[2], worker.id)
        store.jobs.add(NewJob("waits", after=jobs[:2]))
        store.slots.take("main", host_id(), {"tag": 3})
        store.queues.pause(LONG, "for good")
    return jobs[1]


def axe(screen: Screen, rules: list[str] | None = None) -> list[Any]:
    """What axe finds that is serious, by these rules or by all."""
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    if not screen.page.evaluate("'axe' in window"):
        screen.page.evaluate(AXE.read_text())
    found: list[Any] = screen.page.evaluate("options => axe.run(options).then(found => found.violations)", options)
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    return [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in serious]


def settled(screen: Screen, place: str) -> None:
    screen.go(place)
    expect(screen.page.locator("main h1")).to_be_visible()
    expect(screen.page.locator("[aria-busy]")).to_have_count(0)


def test_axe_finds_nothing_serious_in_light_or_dark(server: Server, view: Look) -> None:
    job = fill(server)
    for scheme, rules in (("light", None), ("dark", ["color-contrast"])):  # in the dark only colours differ
        screen = view(scheme=scheme)
        for place in (*PAGES, f"jobs/{job}", "workers/worker%3Atag%3A0"):
            settled(screen, place)
            assert axe(screen, rules) == [], (scheme, place)
        screen.go("queues")
        screen.press("Limits")
        assert axe(screen, rules) == [], (scheme, "a dialog")
        screen.page.keyboard.press("Escape")


def test_dark_follows_the_system_until_somebody_chooses(view: Look) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    light, dark = view(scheme="light"), view(scheme="dark")
    colours = [screen.page.evaluate(back) for screen in (light, dark)]
    assert colours[0] != colours[1]
    theme = light.page.get_by_role("button", name="Theme")
    theme.click()
    assert light.page.evaluate(back) == colours[0], "light, as chosen"
    theme.click()
    assert light.page.evaluate(back) == colours[1], "dark, as chosen"
    light.page.reload()
    light.heading("Overview")
    assert light.page.evaluate(back) == colours[1], "the choice is kept"


def test_no_page_is_wider_than_a_narrow_window(server: Server, view: Look) -> None:
    job = fill(server)
    screen = view(width=360)
    for place in (*PAGES, f"jobs/{job}", "workers/worker%3Atag%3A0"):
        settled(screen, place)
        width = screen.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, (place, width)
    nav = screen.page.get_by_role("navigation")
    nav.get_by_role("link", name="Events").click()
    screen.heading("Events")


def test_all_can_be_done_by_keyboard(server: Server, view: Look) -> None:
    job = fill(server)
    screen = view()
    screen.heading("Overview")
    keyboard, page = screen.page.keyboard, screen.page
    keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    for _ in range(3):
        keyboard.press("Tab")
    expect(page.get_by_role("link", name="Jobs", exact=True)).to_be_focused()
    keyboard.press("Enter")
    screen.heading("Jobs")
    keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    keyboard.type(str(job))
    keyboard.press("Enter")
    expect(screen.fact("State")).to_have_text("failed")
    page.get_by_role("button", name="Retry").focus()
    keyboard.press("Enter")
    expect(screen.fact("State")).to_have_text("ready")
    page.get_by_role("button", name="Cancel").focus()
    keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("button", name="Leave it")).to_be_focused()
    keyboard.press("Tab")
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    keyboard.press("Enter")
    expect(screen.fact("State")).to_have_text("cancelled")


def test_a_page_says_what_to_do_where_there_is_nothing_yet(view: Look) -> None:
    screen = view()
    screen.sees("No queues yet.")
    screen.sees("No worker has died.")
    said = {
        "jobs": "No jobs yet.",
        "workers": "No workers.",
        "hosts": "No orchestrator runs.",
        "schedules": "No schedules.",
        "sources": "No sources.",
    }
    for place, text in said.items():
        screen.go(place)
        screen.sees(text)
    screen.sees("Tracking is off.")
    screen.go("jobs/4711")
    screen.sees("There is no job 4711.")
    screen.go("jobs/nonsense")
    screen.sees("is not a job id")


def test_a_slot_is_shown_against_the_limits_in_force(browser: Browser, tmp_path: Path) -> None:
    limits = {"ROTA_RESTART_LIMIT": "7", "ROTA_RESTART_WINDOW": "90s", "ROTA_RESTART_LIFETIME": "33"}
    server = Server(tmp_path, **limits)
    fill(server)
    with windows(browser, lambda: server.shell.say("open")) as look:
        screen = look()
        screen.go("workers/worker%3Atag%3A0")
        expect(screen.fact("Restarts of late")).to_have_text("0 of 7 within 1 min 30 s")
        expect(screen.fact("Restarts in all")).to_have_text("0 of 33")
    server.end()


def test_typing_is_not_undone_by_a_page_that_is_just_coming_up(view: Look) -> None:
    screen = view()
    screen.heading("Overview")
    assert screen.page.evaluate(TYPE_AT_ONCE) == "typed"
    search = screen.page.get_by_role("searchbox")
    screen.page.wait_for_url("**/*search=typed")
    expect(search).to_have_value("typed")
    screen.page.go_back()
    screen.page.go_forward()
    expect(search).to_have_value("typed")


def test_jobs_are_searched_filtered_and_paged(server: Server, view: Look) -> None:
    with server.store() as store:
        store.jobs.add_many([NewJob(f"piece {n:03}", "tag" if n % 2 else "scan") for n in range(130)])
        store.jobs.add(NewJob("50% off_", "scan", "odd"))
    screen = view()
    screen.go("jobs")
    rows = screen.page.locator("tbody tr")
    expect(rows).to_have_count(50)
    for first, count in (("piece 080", 50), ("piece 030", 31)):
        screen.page.get_by_role("link", name="Older").click()
        expect(rows.first).to_contain_text(first)
        expect(rows).to_have_count(count)
    screen.page.get_by_role("link", name="Newest").click()
    expect(rows.first).to_contain_text("50% off_")
    search = screen.page.get_by_role("searchbox")
    search.fill("PIECE 00")
    expect(rows).to_have_count(10)
    screen.page.get_by_label("Queue").select_option("tag")
    expect(rows).to_have_count(5)
    screen.page.get_by_label("State").select_option("done")
    screen.sees("No job is like that.")
    screen.page.get_by_role("link", name="Show all jobs").click()
    expect(rows).to_have_count(50)
    screen.page.get_by_role("searchbox").fill("0% off_")
    expect(rows).to_have_count(1)


def test_ten_thousand_slots_are_few_in_the_document_and_all_within_reach(server: Server, view: Look) -> None:
    with server.store() as store, store.write() as tx:
        for n in range(MANY):
            name = f"worker:tag:{n}"
            tx.execute("slot.make", name=name, queue="tag", n=n, crew="main", host=host_id(), now=tx.now)
    screen = view()
    screen.go("workers")
    screen.sees("10,000 of 10,000")
    cells = screen.page.locator(".cell")
    assert 0 < cells.count() < 200
    screen.page.locator(".grid").evaluate("grid => { grid.scrollTop = grid.scrollHeight }")
    expect(screen.page.get_by_role("link", name="tag 9999")).to_be_visible()
    assert cells.count() < 200
