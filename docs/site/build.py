"""Build the site from the pages, and check it for what a reader would stumble over.

python docs/site/build.py [FOLDER]        (or: ./dev docs)
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
FETCHED = ("img", "link", "script", "source", "iframe")


def build(site: Path, sources: Path = ROOT) -> list[str]:
    """Rebuild the site, and return the complaints of Sphinx."""
    words = ["-m", "sphinx", "--fail-on-warning", "--fresh-env", "--quiet", "--builder", "html"]
    places = ["--conf-dir", f"{sources}/docs/site", str(sources), str(site)]
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPATH": str(sources), "NO_COLOR": "1"}
    ran = subprocess.run(
        [sys.executable, *words, *places], env=environment, capture_output=True, text=True, check=False
    )
    said = [line.replace(f"{sources}/", "") for line in ran.stderr.splitlines() if line.strip()]
    return said or ([f"Sphinx ended with {ran.returncode}"] if ran.returncode else [])


def stumbles(site: Path) -> list[str]:
    """Return the broken links of the built pages, and what they would fetch from another host."""
    return [f"{page.relative_to(site)}: {told}" for page in sorted(site.rglob("*.html")) for told in _of(page)]


def _of(page: Path) -> list[str]:
    told = []
    for tag, link in read(page).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            if tag in FETCHED and parts.scheme != "data":
                told.append(f"fetches {link} from another host")
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if not target.is_file():
            told.append(f"{link} leads nowhere")
        elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
            told.append(f"{link} leads to no part of that page")
    return told


class Reader(HTMLParser):
    """Collects the links of a page, each with its tag, and the anchors that a link to it may name."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.anchors = {""}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("href", "src") and value is not None:
                self.links.append((tag, value))
            elif key == "id" and value is not None:
                self.anchors.add(value)


@cache
def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or "--help" in arguments:
        print("usage: python docs/site/build.py [FOLDER]", file=sys.stderr)
        return 2
    site = Path(*arguments or (ROOT / "site",)).resolve()
    wrong = build(site) or stumbles(site)
    for each in wrong:
        print(each, file=sys.stderr)
    if not wrong:
        print(f"built {site}/index.html: open it in a browser")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
