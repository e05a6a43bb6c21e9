"""What the dashboard says before it knows: that it does not know yet, and never that there is nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from rota.core.job import NewJob
from tests.web.screens import PAGES
from tests.web.test_hosts import settle_in

if TYPE_CHECKING:
    from playwright.sync_api import Route

    from tests.api.servers import Server
    from tests.web.conftest import Look
    from tests.web.screens import Screen

NOTHING = re.compile("^(No |None|Nothing|0 of 0)")


class Held:
    """Requests of a page that are not answered until they are let go."""

    def __init__(self, screen: Screen, pattern: str) -> None:
        self._routes: list[Route] = []
        self._is_open = False
        screen.page.route(re.compile(pattern), self._met)

    def _met(self, route: Route) -> None:
        if self._is_open:
            route.continue_()
        else:
            self._routes.append(route)

    def let_go(self) -> None:
        self._is_open = True
        for route in self._routes:
            route.continue_()


def test_a_page_that_is_still_loading_does_not_say_that_there_is_nothing(view: Look) -> None:
    screen = view()
    screen.sees("Nothing needs attention.")
    for place, text in (("overview", "Nothing needs attention."), ("workers", "No workers.")):
        held = Held(screen, r"/api/v1/(?!me$)")
        screen.go(place)
        screen.page.reload()
        expect(screen.page.locator("[aria-busy]").first).to_be_visible()
        screen.sees_no(NOTHING)
        held.let_go()
        screen.sees(text)
        screen.sees("No workers.")
        expect(screen.page.locator("[aria-busy]")).to_have_count(0)


def test_a_search_that_still_runs_does_not_say_that_there_are_no_older_ones(server: Server, view: Look) -> None:
    with server.store() as store:
        store.jobs.add(NewJob("a needle"))
    screen = view()
    screen.go("jobs")
    screen.sees("No older ones")
    held = Held(screen, r"/api/v1/jobs\?.*search=needle")
    screen.page.get_by_role("searchbox").fill("needle")
    screen.sees("Searching…")
    screen.sees_no("No older ones")
    held.let_go()
    screen.sees("No older ones")
    screen.sees_no("Searching…")


def test_hosts_fit_a_narrow_window_with_their_buttons(server: Server, view: Look) -> None:
    with server.store() as store:
        for n in range(2):
            settle_in(store, f"boot-{n}/1", f"a-host-with-a-long-name-{n}.rack-12.example.org", 3)
    screen = view(width=400)
    screen.go("hosts")
    table = screen.panel("Hosts")
    expect(table.get_by_role("row")).to_have_count(3)
    assert table.evaluate("table => table.scrollWidth - table.clientWidth") == 0
    for button in table.get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None and box["x"] + box["width"] <= 400


def test_the_menu_of_a_narrow_window_shows_where_one_is(view: Look) -> None:
    screen = view(width=400)
    for place in (PAGES[-1], PAGES[0], PAGES[-2]):
        screen.go(place)
        current = screen.page.locator("nav [aria-current=page]")
        expect(current).to_have_attribute("href", re.compile(place))
        inside = "link => { const [a, b] = [link, link.closest('ul')].map(each => each.getBoundingClientRect());"
        screen.page.wait_for_function(
            f"({inside} return a.left >= b.left && a.right <= b.right; }})", arg=current.element_handle()
        )
