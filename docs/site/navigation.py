"""Take the navigation from the links of the index pages, so that readers of the plain files have the same one."""

from __future__ import annotations

import posixpath
import re
from html import escape
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.addnodes import toctree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)\.md(?:#[^)]*)?\)")
_SECTION = re.compile(r"(?=^## )", re.MULTILINE)


def plant(_: Sphinx, page: str, source: list[str]) -> None:
    """Put each page below the section of an index page that links to it first."""
    if posixpath.basename(page) != "index":
        return
    parts, known = [], {page}
    for part in _SECTION.split(source[0]):
        led = {other: title for other, title in children(page, part).items() if other not in known}
        known.update(led)
        parts.append(part + tree(led))
    source[0] = "".join(parts)


def children(page: str, text: str) -> dict[str, str]:
    """Return the pages that a text links to: of its folder, indexes directly below it, and pages outside the docs."""
    folder = posixpath.dirname(page)
    found = [(posixpath.normpath(posixpath.join(folder, link)), title) for title, link in _LINK.findall(text)]
    return {other: title for other, title in found if _belongs(other, folder)}


def _belongs(page: str, folder: str) -> bool:
    home, name = posixpath.split(page)
    below = name == "index" and posixpath.dirname(home) == folder
    return home == folder or below or not page.startswith("docs/")


def tree(pages: dict[str, str]) -> str:
    """Return the pages under their own titles; those outside the docs have the text of the link."""
    listed = [f"/{page}" if page.startswith("docs/") else f"{title} </{page}>" for page, title in pages.items()]
    return "\n".join(["", "```{toctree}", ":hidden:", "", *listed, "```", "", ""]) if pages else ""


def sidebar(app: Sphinx, page: str, _: str, context: dict[str, Any], __: nodes.document | None) -> None:
    """Return the whole tree for the sidebar. Sphinx's own would copy the headings of all pages to show titles."""
    context["toctree"] = lambda **_: branches(app, app.config.root_doc, page, 1)


def branches(app: Sphinx, home: str, page: str, depth: int) -> str:
    """Return the pages of an index as a list, with the heading of each section that has several."""
    shown = []
    for heading, pages in sections(app, home):
        if depth > 1 and heading:
            shown.append(f'<li class="section"><span>{escape(heading)}</span></li>')
        shown += [_branch(app, title, other, page, depth) for title, other in pages]
    return f"<ul>{''.join(shown)}</ul>" if shown else ""


def _branch(app: Sphinx, title: str, other: str, page: str, depth: int) -> str:
    below = branches(app, other, page, depth + 1)
    here = " current" if other == page or page in app.env.toctree_includes.get(other, ()) else ""
    link = "#" if other == page else app.builder.get_relative_uri(page, other)
    name = f'<a class="reference internal{here}" href="{escape(link)}">{escape(title)}</a>'
    return f'<li class="toctree-l{depth}{here}">{name}{below}</li>'


def sections(app: Sphinx, home: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Return the sections of an index page with the titles and names of their pages."""
    if home not in app.env.toctree_includes:
        return
    contents = app.env.tocs[home]
    for tree in contents.findall(toctree):
        above = tree.parent.parent
        heading = above[0].astext() if isinstance(above, nodes.list_item) and above.parent is not contents else ""
        yield heading, [(title or app.env.titles[other].astext(), other) for title, other in tree["entries"]]
