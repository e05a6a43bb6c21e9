"""What workers report: outcomes, both ways, and the rest as it is heard. Any program may be on the pipe: take care."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core import job as jobs
from rota.core.claim import Done, Failed, Released, Snoozed
from rota.core.frames import codec as frames
from rota.core.jsontext import encode, encoder, sound
from rota.core.record import Record
from rota.core.times import DAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.claim import Outcome

LARGEST_RESULT = 256 * 1024
LOST_OUTCOME = "its outcome was lost: something else wrote into the worker's frame socket"
MOST_AT_ONCE = 1000
LONGEST_ERROR, LONGEST_NOTE = 16_384, 10_000
LONGEST_NAME = 200
LONGEST_SNOOZE = 3650 * DAY
_encode = encoder()


class Kinds(Record):
    """Some kinds of jobs, or all of them."""

    names: frozenset[str] = frozenset()
    every: bool = False

    def __bool__(self) -> bool:
        return self.every or bool(self.names)

    def __contains__(self, kind: object) -> bool:
        return self.every or kind in self.names


NO_KINDS = Kinds()


def done_frame(job: int, token: int, outcome: Outcome) -> bytes:
    """The whole frame. A plain success is written by hand: every job pays for this."""
    if isinstance(outcome, Done):
        result = "null" if outcome.result is None else _encode(outcome.result)
        return f'DONE|{{"job":{job},"token":{token},"outcome":"done","result":{result}}}\n'.encode()
    return frames.encode(frames.DONE, {"job": job, "token": token, **_told(outcome)})


def _told(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Failed(error, again, reason):
            return {"outcome": "failed", "error": error[:LONGEST_ERROR], "again": again, "reason": reason}
        case Snoozed(delay, note):
            return {"outcome": "snoozed", "delay": delay, "note": note and note[:LONGEST_NOTE]}
        case Released(note, jobs.UNKNOWN_KIND):
            return {"outcome": "released", "reason": jobs.UNKNOWN_KIND, "note": note and note[:LONGEST_NOTE]}
        case Released(note):
            return {"outcome": "released", "note": note and note[:LONGEST_NOTE]}
        case _:
            return {"outcome": "released"}


def outcome(body: dict[str, Any]) -> Outcome:
    """The outcome that a DONE frame tells; one that makes no sense is a failure that says so."""
    if body.get("outcome") == "done":
        return _done(body.get("result"))
    note = _text(body.get("note"), LONGEST_NOTE)
    match body:
        case {"outcome": "snoozed", "delay": int(delay)}:
            return Snoozed(min(max(1, delay), LONGEST_SNOOZE), note)
        case {"outcome": "released"}:
            return Released(note, jobs.UNKNOWN_KIND if body.get("reason") == jobs.UNKNOWN_KIND else None)
        case {"outcome": "failed"}:
            error, again = _text(body.get("error"), LONGEST_ERROR), body.get("again")
            reason = _text(body.get("reason"), LONGEST_NOTE)
            return Failed(error or "failed, and did not say why", again is not False, reason)
        case _:
            return Failed(f"reported no outcome that rota knows: {body.get('outcome')!r:.60}")


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
    note = _text(body.get("note"), 200)
    return {**told, "note": note} if note else told


def metrics(body: dict[str, Any]) -> dict[str, object]:
    """What a HEALTH frame tells beyond what every one does; as much of it as is small and simple."""
    known = ("component_id", "status", "current_job", "in_hand", "recover_for_s")
    kept = {name[:40]: value for name, value in body.items() if name not in known and _is_number(value)}
    return dict(list(kept.items())[:20])


def checkpoint(body: dict[str, Any]) -> str | None:
    """What a CHECKPOINT frame wants the next attempt to know, as JSON; None when it is none, or too large."""
    text = body.get("checkpoint")
    return text if isinstance(text, str) and isinstance(_done(text), Done) else None


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME and _text(value, LONGEST_NAME) == value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18


def _done(result: object) -> Outcome:
    if result is None or result == "null":
        return Done(result)
    if not isinstance(result, str) or len(result.encode("utf-8", "replace")) > LARGEST_RESULT:
        return Failed(f"the result is not text of at most {LARGEST_RESULT:,} bytes", again=False)
    try:
        sound(result)
    except ValueError as problem:
        return Failed(f"the result is not JSON: {problem}", again=False)
    return Done(result)


def _text(value: object, longest: int) -> str | None:
    if not isinstance(value, str):
        return None
    return value[:longest].encode("utf-8", "replace").decode()
