"""The site: built without a warning, no link leads nowhere, nothing comes from another host, and it is read offline."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import sync_playwright

from docs.shots import CHROMIUM, FLAGS
from docs.site.build import build, stumbles
from tests.docs.pages import ROOT, name, pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

# A build is CPU time alone, and a busy machine has little of it.
pytestmark = [pytest.mark.crew, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("site")
    assert build(folder) == []
    return folder


@pytest.fixture(scope="module")
def page(site: Path) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_context(offline=True, viewport={"width": 1280, "height": 800}).new_page()
        page.set_default_timeout(20_000)
        yield page
        browser.close()


def test_no_link_of_the_site_leads_nowhere_and_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    assert stumbles(site) == []


def test_every_page_is_on_the_site(site: Path) -> None:
    for each in pages():
        assert (site / name(each)).with_suffix(".html").is_file(), name(each)


def test_offline_the_front_page_leads_on_and_the_search_finds(site: Path, page: Page) -> None:
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.wait_for_url("**/docs/index.html")
    page.locator(".sidebar-tree").get_by_role("link", name="How-to guides").click()
    page.get_by_role("heading", name="Come from elsewhere").wait_for()
    page.get_by_placeholder("Search").fill("quarantined")
    page.keyboard.press("Enter")
    page.locator("#search-results a", has_text="Restarts").first.wait_for()
    assert failed == []


def test_the_states_are_drawn_without_a_script(site: Path, page: Page) -> None:
    page.goto((site / "docs/reference/states.html").as_uri())
    drawn = page.locator("figure.states svg")
    assert drawn.count() == (ROOT / "docs/reference/states.md").read_text(encoding="utf-8").count("```mermaid")
    assert {"scheduled", "active", "cancelled"} <= set(drawn.first.locator("text").all_text_contents())


def test_what_is_wrong_with_a_page_is_told(tmp_path: Path) -> None:
    front = "# Front\n\n[Gone](gone.md) [Part](one.md#no-such-part)\n\n```nolanguage\nx\n```\n"
    told = "\n".join(build(tmp_path / "built", small(tmp_path, front)))
    assert "docs/index.md:3: WARNING: 'myst' cross-reference target not found: 'gone.md'" in told
    assert "no-such-part" in told and "nolanguage" in told
    assert "docs/two.md: WARNING: document isn't included in any toctree" in told


def test_a_picture_from_another_host_and_a_link_to_nowhere_are_told(tmp_path: Path) -> None:
    front = '# Front\n\n[One](one.md) [Two](two.md) <a href="gone.html">x</a>\n\n![x](https://example.org/x.png)\n'
    built = tmp_path / "built"
    assert build(built, small(tmp_path, front)) == []
    assert stumbles(built) == [
        "docs/index.html: gone.html leads nowhere",
        "docs/index.html: fetches https://example.org/x.png from another host",
    ]


def small(folder: Path, front: str) -> Path:
    """A project of three pages that is built as ours is."""
    sources = folder / "sources"
    shutil.copytree(ROOT / "docs/site", sources / "docs/site")
    (sources / "web/src").mkdir(parents=True)
    shutil.copy(ROOT / "web/src/icon.svg", sources / "web/src")
    (sources / "docs/index.md").write_text(front)
    for other in ("one", "two"):
        (sources / f"docs/{other}.md").write_text(f"# {other}\n")
    return sources
