"""The few pieces of Markdown that the pages are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside a cell does not end it."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    return f"`{text}`"


def join(*parts: str) -> str:
    """A page of parts with an empty line between them."""
    return "\n\n".join(parts) + "\n"


def sentence(text: str) -> str:
    """`text` with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")


def first_paragraph(doc: str | None) -> str:
    """A docstring's promise on one line."""
    return " ".join((doc or "").strip().split("\n\n")[0].split())
