"""The navigation is what the index pages link to, so that a reader of the plain files has the same one."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)\.md(?:#[^)]*)?\)")
_SECTION = re.compile(r"(?=^## )", re.MULTILINE)


def plant(_: Sphinx, page: str, source: list[str]) -> None:
    """Let every section of an index page carry the pages that it is the first to link to."""
    if posixpath.basename(page) != "index":
        return
    parts, known = [], {page}
    for part in _SECTION.split(source[0]):
        led = {other: title for other, title in children(page, part).items() if other not in known}
        known.update(led)
        parts.append(part + tree(led))
    source[0] = "".join(parts)


def children(page: str, text: str) -> dict[str, str]:
    """The pages of this folder, the indexes right below it and the pages outside the docs that a text links to."""
    folder = posixpath.dirname(page)
    found = [(posixpath.normpath(posixpath.join(folder, link)), title) for title, link in _LINK.findall(text)]
    return {other: title for other, title in found if _belongs(other, folder)}


def _belongs(page: str, folder: str) -> bool:
    home, name = posixpath.split(page)
    below = name == "index" and posixpath.dirname(home) == folder
    return home == folder or below or not page.startswith("docs/")


def tree(pages: dict[str, str]) -> str:
    """The pages under their own titles; those outside the docs under the words of the link."""
    listed = [f"/{page}" if page.startswith("docs/") else f"{title} </{page}>" for page, title in pages.items()]
    return "\n".join(["", "```{toctree}", ":hidden:", "", *listed, "```", "", ""]) if pages else ""
