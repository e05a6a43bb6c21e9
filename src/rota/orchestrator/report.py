"""What a worker reports, taken with care: any program may be on the other end of the pipe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rota.core.claim import Done, Failed, Released, Snoozed
from rota.core.times import DAY

if TYPE_CHECKING:
    from rota.core.claim import Outcome
    from rota.store.exchange import Checkpoint, Handout

LARGEST_RESULT = 256 * 1024
LONGEST_NOTE = 10_000
LONGEST_SNOOZE = 3650 * DAY


def outcome(body: dict[str, Any]) -> Outcome:
    """The outcome that a DONE frame tells; one that makes no sense is a failure that says so."""
    note = _text(body.get("note"))
    match body:
        case {"outcome": "done"}:
            return _done(body.get("result"))
        case {"outcome": "snoozed", "delay": int(delay)}:
            return Snoozed(min(max(1, delay), LONGEST_SNOOZE), note)
        case {"outcome": "released"}:
            return Released(note)
        case {"outcome": "failed"}:
            error, again = _text(body.get("error")), body.get("again")
            return Failed(error or "failed, and did not say why", again is not False, _text(body.get("reason")))
        case _:
            return Failed(f"reported no outcome that rota knows: {body.get('outcome')!r:.60}")


def tokens(body: dict[str, Any]) -> set[int]:
    """The tokens that a RETURNED frame names."""
    named = body.get("tokens")
    return {token for token in named if isinstance(token, int)} if isinstance(named, list) else set()


def seconds(body: dict[str, Any]) -> float | None:
    """How long a worker asks to recover; None when it does not say."""
    asked = body.get("recover_for_s")
    return max(0.0, min(asked, 1e6)) if isinstance(asked, int | float) else None


def progress(body: dict[str, Any]) -> dict[str, object]:
    """How far a handler says it is."""
    told: dict[str, object] = {name: body[name] for name in ("done", "total") if _is_number(body.get(name))}
    note = _text(body.get("note"))
    return {**told, "note": note[:200]} if note else told


def metrics(body: dict[str, Any]) -> dict[str, object]:
    """What a HEALTH frame tells beyond what every one does; as much of it as is small and simple."""
    known = ("component_id", "status", "current_job", "recover_for_s")
    kept = {name[:40]: value for name, value in body.items() if name not in known and _is_number(value)}
    return dict(list(kept.items())[:20])


def checkpoint(body: dict[str, Any], in_hand: Handout | None) -> Checkpoint | None:
    """What a handler wants its next attempt to know; None when it does not speak of the job in hand, or is no JSON."""
    text = body.get("checkpoint")
    if in_hand is None or body.get("token") != in_hand.token or not isinstance(text, str):
        return None
    return (text, in_hand.job_id, in_hand.token) if isinstance(_done(text), Done) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18


def _done(result: object) -> Outcome:
    if result is None:
        return Done(None)
    if not isinstance(result, str) or len(result.encode("utf-8", "replace")) > LARGEST_RESULT:
        return Failed(f"the result is not text of at most {LARGEST_RESULT:,} bytes", again=False)
    try:
        json.loads(result)
    except (ValueError, RecursionError):
        return Failed("the result is not JSON", again=False)
    return Done(result)


def _text(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    return value[:LONGEST_NOTE].encode("utf-8", "replace").decode()
