"""What workers report beside outcomes, read with care: any program may be on the pipe, so nothing here raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.frames.outcomes import json_text, text_of
from rota.core.jsontext import encode
from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_AT_ONCE = 1000
LONGEST_NAME = 200


class Kinds(Record):
    """Some kinds of jobs, or all of them."""

    names: frozenset[str] = frozenset()
    every: bool = False

    def __bool__(self) -> bool:
        return self.every or bool(self.names)

    def __contains__(self, kind: object) -> bool:
        return self.every or kind in self.names


NO_KINDS = Kinds()


def kinds(value: object) -> Kinds:
    """The kinds that a HELLO frame names: a list of them, or true for all."""
    names = value if isinstance(value, list) else []
    return Kinds(frozenset(name for name in names if _is_name(name)), value is True)


def kinds_json(known: Kinds) -> str:
    """The same as a list, or true for all, in JSON."""
    return encode(True if known.every else sorted(known.names))


def concurrency(body: dict[str, Any]) -> int:
    """How many jobs a worker says that it has in hand at a time."""
    told = body.get("concurrency")
    return min(max(1, told), MOST_AT_ONCE) if isinstance(told, int) else 1


def tokens(body: dict[str, Any]) -> set[int]:
    """The tokens that a RETURNED frame names."""
    named = body.get("tokens")
    return {token for token in named if isinstance(token, int)} if isinstance(named, list) else set()


def named(body: dict[str, Any]) -> set[int] | None:
    """The tokens that a HEALTH frame says are in hand; None when it does not say."""
    told = body.get("in_hand")
    if isinstance(told, list):
        return {token for token in told if isinstance(token, int)}
    return set() if "current_job" in body and body["current_job"] is None else None


def before(which: object, order: Sequence[int]) -> int:
    """How many come before this one, in the order in which they run; none when it is not among them."""
    return order.index(which) if isinstance(which, int) and which in order else 0


def seconds(body: dict[str, Any]) -> float | None:
    """How long a worker asks to recover; None when it does not say."""
    asked = body.get("recover_for_s")
    return max(0.0, min(asked, 1e6)) if isinstance(asked, int | float) else None


def progress(body: dict[str, Any]) -> dict[str, object]:
    """How far a handler says it is."""
    told: dict[str, object] = {name: body[name] for name in ("done", "total") if _is_number(body.get(name))}
    note = text_of(body.get("note"), 200)
    return {**told, "note": note} if note else told


def metrics(body: dict[str, Any]) -> dict[str, object]:
    """What a HEALTH frame tells beyond what every one does; as much of it as is small and simple."""
    known = ("component_id", "status", "current_job", "in_hand", "recover_for_s")
    kept = {name[:40]: value for name, value in body.items() if name not in known and _is_number(value)}
    return dict(list(kept.items())[:20])


def checkpoint(body: dict[str, Any]) -> str | None:
    """What a CHECKPOINT frame wants the next attempt to know, as JSON; None when it is none, or too large."""
    return json_text(body.get("checkpoint"))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME and text_of(value, LONGEST_NAME) == value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
