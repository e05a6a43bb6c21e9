"""Draw state diagrams and flowcharts when the site is built, in the colours of the page and without a script."""

from __future__ import annotations

import html
import re
import subprocess
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_MOVE = re.compile(r"^ +(\S+) --> (\S+): (.+)$", re.MULTILINE)
_NODE = re.compile(r'^ +(\w+)\["(.+)"\]$', re.MULTILINE)
_STEP = re.compile(r'^ +(\w+) -->\|"(.+)"\| (\w+)$', re.MULTILINE)
# Graphviz accepts literal colours only, so these two are replaced by the page's variables.
_COLOURS = {"#010101": "var(--color-foreground-muted)", "#020202": "var(--color-background-secondary)"}
_LOOK = """\
bgcolor=transparent; nodesep=0.25; ranksep=0.5;
node [shape=box style="rounded,filled" fillcolor="#020202" color="#010101" fontname="sans-serif"];
node [fontsize=17 height=0.4];
edge [color="#010101" fontname="sans-serif" fontsize=14 arrowsize=0.7];
"""
_BEGIN = 'begin [shape=circle label="" width=0.18 height=0.18 fixedsize=true fillcolor="#010101"];'


def draw(_: Sphinx, page: nodes.document) -> None:
    """Replace every diagram by a picture."""
    for block in list(page.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(nodes.raw("", picture(block.astext()), format="html"))


def picture(diagram: str) -> str:
    """Return a diagram as a drawing whose colours are the page's."""
    drawn = subprocess.run(["dot", "-Tsvg"], input=graph(diagram), capture_output=True, text=True, check=True).stdout
    svg = drawn[drawn.index("<svg") :]
    svg = re.sub(
        r'<svg width="(\d+)pt" height="\d+pt"', lambda size: f'<svg width="{int(size[1]) * 3 // 4}"', svg, count=1
    )
    for colour, ours in _COLOURS.items():
        svg = svg.replace(f'"{colour}"', f'"{ours}"')
    return f'<figure class="states">{re.sub("<title>.*?</title>", "", svg)}</figure>'


def graph(diagram: str) -> str:
    """Return a diagram in the language of Graphviz."""
    if diagram.startswith("flowchart"):
        return _flowchart(diagram)
    moves = _MOVE.findall(diagram)
    states = {state: "begin" if state == "[*]" else f'"{state}"' for move in moves for state in move[:2]}
    lines = [f'{states[old]} -> {states[new]} [label="{html.escape(_broken(verbs))}"];' for old, new, verbs in moves]
    return "\n".join(["digraph {", _LOOK, _BEGIN, *lines, "}"])


def _flowchart(diagram: str) -> str:
    nodes = [f'"{name}" [label="{_lines(label)}"];' for name, label in _NODE.findall(diagram)]
    steps = [f'"{begin}" -> "{end}" [label="{_lines(label)}"];' for begin, label, end in _STEP.findall(diagram)]
    return "\n".join(["digraph {", _LOOK, *nodes, *steps, "}"])


def _lines(label: str) -> str:
    return "\\n".join(html.escape(line) for line in label.split("<br>"))


def _broken(verbs: str) -> str:
    """Break many verbs into lines, since a wide label pushes the states apart."""
    words = verbs.split(", ")
    return "\\n".join(", ".join(words[at : at + 2]) for at in range(0, len(words), 2))
