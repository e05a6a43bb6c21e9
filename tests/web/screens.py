"""The dashboard in a real browser, as a person meets it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page

ROOT = Path(__file__).parents[2]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = "/usr/bin/chromium"
# It runs as root in a container, and asks nobody on the network for anything.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PAGES = ("overview", "jobs", "queues", "workers", "hosts", "sources", "schedules", "events")
PATIENCE = 20_000
expect.set_options(timeout=PATIENCE)


class Screen:
    """One window with a session of its own. What the page complains of is kept in `complaints`."""

    def __init__(self, browser: Browser, link: str, width: int = 1280, scheme: str = "light") -> None:
        theme: Any = scheme
        self._context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=theme)
        self._context.set_default_timeout(PATIENCE)
        self.url = link.partition("/open")[0]
        self.complaints: list[str] = []
        self.page: Page = self._context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(link)

    def _heard(self, message: ConsoleMessage) -> None:
        """A request that is refused is shown to the person; anything else that is an error is a mistake of the page."""
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def go(self, place: str) -> None:
        """To a page, by its address."""
        self.page.evaluate("place => { location.hash = place }", f"#/{place}")

    def sees(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible()

    def sees_no(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.get_by_text(text)).to_have_count(0)

    def heading(self, text: str) -> None:
        expect(self.page.get_by_role("heading", level=1)).to_have_text(text)

    def panel(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True).first

    def press(self, name: str, within: Locator | None = None) -> None:
        """A button, by what stands on it. A banner that comes just then may move it: it is pressed all the same."""
        button = (within or self.page.locator("main")).get_by_role("button", name=name, exact=True).first
        button.click(trial=True)
        button.dispatch_event("click")

    def confirm(self, name: str, **said: str) -> None:
        """Fill in the dialog that a button opened, and go on."""
        dialog = self.page.get_by_role("dialog")
        for label, value in said.items():
            dialog.get_by_label(label).fill(value)
        dialog.get_by_role("button", name=name, exact=True).click()
        expect(dialog).to_have_count(0)

    def fact(self, name: str) -> Locator:
        """The value of one of the facts about what is shown."""
        return self.page.locator(".facts div", has=self.page.locator("dt", has_text=re.compile(f"^{name}$"))).locator(
            "dd"
        )

    def close(self) -> None:
        self._context.close()
        assert self.complaints == []
