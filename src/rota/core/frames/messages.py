"""Read what workers report beside outcomes. Any program may be on the pipe: what makes no sense is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.frames.outcomes import json_text, text_of
from rota.core.jsontext import encode
from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_AT_ONCE = 1000
LONGEST_NAME = LONGEST_PROGRESS_NOTE = 200
LONGEST_METRIC, MOST_METRICS = 40, 20
LONGEST_RECOVERY = 1e6
_STANDARD_FIELDS = ("component_id", "status", "current_job", "in_hand", "recover_for_s")


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
    """Return the kinds that a HELLO frame names: a list of them, or true for all."""
    names = value if isinstance(value, list) else []
    return Kinds(frozenset(name for name in names if _is_name(name)), value is True)


def kinds_json(kinds: Kinds) -> str:
    """Return kinds as `kinds` reads them, in JSON."""
    return encode(True if kinds.every else sorted(kinds.names))


def concurrency(body: dict[str, Any]) -> int:
    """Return how many jobs a worker runs at a time, as its HELLO frame says."""
    count = body.get("concurrency")
    return min(max(1, count), MOST_AT_ONCE) if isinstance(count, int) else 1


def tokens(body: dict[str, Any]) -> set[int]:
    """Return the tokens in a RETURNED frame."""
    return _whole_numbers(body.get("tokens")) or set()


def running_tokens(body: dict[str, Any]) -> set[int] | None:
    """Return the tokens of the jobs that run, as a HEALTH frame says; None if it does not say."""
    running = _whole_numbers(body.get("in_hand"))
    if running is not None:
        return running
    return set() if "current_job" in body and body["current_job"] is None else None


def count_before(item: object, order: Sequence[int]) -> int:
    """Return how many come before an item; 0 if it is not in the sequence."""
    return order.index(item) if isinstance(item, int) and item in order else 0


def recovery_seconds(body: dict[str, Any]) -> float | None:
    """Return for how long a worker asks to recover; None if it does not say."""
    seconds = body.get("recover_for_s")
    return max(0.0, min(seconds, LONGEST_RECOVERY)) if isinstance(seconds, int | float) else None


def progress(body: dict[str, Any]) -> dict[str, object]:
    """Return how far a handler is, as a PROGRESS frame says."""
    facts: dict[str, object] = {name: body[name] for name in ("done", "total") if _is_number(body.get(name))}
    note = text_of(body.get("note"), LONGEST_PROGRESS_NOTE)
    return {**facts, "note": note} if note else facts


def metrics(body: dict[str, Any]) -> dict[str, object]:
    """Return the fields of a HEALTH frame beyond those of every worker, as far as they are numbers and not too many."""
    numbers = {
        name[:LONGEST_METRIC]: value
        for name, value in body.items()
        if name not in _STANDARD_FIELDS and _is_number(value)
    }
    return dict(list(numbers.items())[:MOST_METRICS])


def checkpoint(body: dict[str, Any]) -> str | None:
    """Return the checkpoint in a CHECKPOINT frame, as JSON text; None if it is not JSON, or too large."""
    return json_text(body.get("checkpoint"))


def _whole_numbers(value: object) -> set[int] | None:
    return {item for item in value if isinstance(item, int)} if isinstance(value, list) else None


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME and text_of(value, LONGEST_NAME) == value


def _is_number(value: object) -> bool:
    # A number beyond 10^18 is not exact in every reader of JSON, and some do not take it at all.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
