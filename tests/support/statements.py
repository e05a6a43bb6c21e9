"""Statements with a mistake, for planted bugs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.store.engine.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable


def with_mistake(name: str, old: str, new: str) -> Callable[[Statements, str], str]:
    """Return `Statements.text` with a mistake in one statement."""
    right = Statements.text

    def text(self: Statements, asked: str) -> str:
        found = right(self, asked)
        if asked != name:
            return found
        assert old in found, f"{name} has no {old!r} any more: plant this bug anew"
        return found.replace(old, new)

    return text
