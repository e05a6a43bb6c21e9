"""The Markdown that the generated pages are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Bars inside cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    return f"`{text}`"


def join(*parts: str) -> str:
    """Join parts to a page, with an empty line between them."""
    return "\n\n".join(parts) + "\n"


def sentence(text: str) -> str:
    """Return `text` with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")


def first_paragraph(doc: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((doc or "").strip().split("\n\n")[0].split())
