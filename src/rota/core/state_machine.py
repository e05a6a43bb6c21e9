"""A state machine is a table; these two functions read it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Moves = Mapping[tuple[str | None, str], frozenset[str]]


class ImpossibleMove(AssertionError):
    """A change of state that the table does not have: a bug, never a user's mistake."""


def allowed(moves: Moves, state: str | None, verb: str) -> frozenset[str]:
    """The states that `verb` may lead to from `state`; none when it may not be done."""
    return moves.get((state, verb), frozenset())


def check(moves: Moves, old: str | None, verb: str, new: str) -> None:
    if new not in allowed(moves, old, verb):
        raise ImpossibleMove(f"{verb} may not lead from {old} to {new}")


def diagram(moves: Moves) -> str:
    """The table as a Mermaid state diagram, for the docs: one arrow between two states, with all verbs that take it."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (old, verb), targets in moves.items():
        for new in sorted(targets):
            arrows.setdefault((old or "[*]", new), []).append(verb)
    lines = [f"    {old} --> {new}: {', '.join(verbs)}" for (old, new), verbs in arrows.items()]
    return "\n".join(["stateDiagram-v2", *lines])
