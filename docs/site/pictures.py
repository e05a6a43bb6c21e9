"""State diagrams drawn when the site is built, in the colours of the page: no script draws them in the browser."""

from __future__ import annotations

import html
import re
import subprocess
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_MOVE = re.compile(r"^ +(\S+) --> (\S+): (.+)$", re.MULTILINE)
# Graphviz wants real colours; those of the page take their places.
_COLOURS = {"#010101": "var(--color-foreground-muted)", "#020202": "var(--color-background-secondary)"}
_LOOK = """\
bgcolor=transparent; nodesep=0.25; ranksep=0.5;
node [shape=box style="rounded,filled" fillcolor="#020202" color="#010101" fontname="sans-serif"];
node [fontsize=17 height=0.4];
edge [color="#010101" fontname="sans-serif" fontsize=14 arrowsize=0.7];
begin [shape=circle label="" width=0.18 height=0.18 fixedsize=true fillcolor="#010101"];
"""


def draw(_: Sphinx, page: nodes.document) -> None:
    """Put a picture in the place of every diagram."""
    for block in list(page.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(nodes.raw("", picture(block.astext()), format="html"))


def picture(diagram: str) -> str:
    """The moves of a diagram as a drawing whose colours are the page's."""
    drawn = subprocess.run(["dot", "-Tsvg"], input=graph(diagram), capture_output=True, text=True, check=True).stdout
    svg = drawn[drawn.index("<svg") :]
    svg = re.sub(
        r'<svg width="(\d+)pt" height="\d+pt"', lambda size: f'<svg width="{int(size[1]) * 3 // 4}"', svg, count=1
    )
    for colour, ours in _COLOURS.items():
        svg = svg.replace(f'"{colour}"', f'"{ours}"')
    return f'<figure class="states">{re.sub("<title>.*?</title>", "", svg)}</figure>'


def graph(diagram: str) -> str:
    moves = _MOVE.findall(diagram)
    states = {state: "begin" if state == "[*]" else f'"{state}"' for move in moves for state in move[:2]}
    lines = [f'{states[old]} -> {states[new]} [label="{html.escape(_broken(verbs))}"];' for old, new, verbs in moves]
    return "\n".join(["digraph {", _LOOK, *lines, "}"])


def _broken(verbs: str) -> str:
    """Many verbs on several lines, since a wide label pushes the states apart."""
    words = verbs.split(", ")
    return "\\n".join(", ".join(words[at : at + 2]) for at in range(0, len(words), 2))
