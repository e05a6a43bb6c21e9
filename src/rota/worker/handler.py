"""Running one handler: the user's function, called with a job's payload, and what came of it as an outcome."""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

from rota.core.claim import TIMEOUT, Done, Failed, Released, Snoozed
from rota.core.errors import BadInput, RotaError
from rota.core.frames.outcomes import LARGEST_RESULT
from rota.core.jsontext import encoder, sound
from rota.core.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Outcome
    from rota.core.times import Duration

CONTEXT = "ctx"
LONGEST_TEXT = 10_000
DEADLINE, CANCELLED, STOPPED = "deadline", "cancelled", "stopped"  # why a job in hand is told to end
TIMED_OUT = "ran past its time-out"
CUT_SHORT = "the worker stopped before this was finished"
CALLED_OFF = "called off"
_NOTHING = Done()
_encode = encoder()


class Snooze(Exception):
    """Raised by a handler to be called again after a while, such as `"10m"`; spends no attempt."""

    def __init__(self, after: str, note: str | None = None) -> None:
        super().__init__(f"try again in {after}")
        self.after: Duration = parse_duration(after)
        self.note = note


class GiveUp(Exception):
    """Raised by a handler to fail its job for good: no further attempt would help."""


class Unreadable(GiveUp, BadInput):
    """The payload is no JSON that every reader takes: it was not added as jobs are."""


class Interrupted(BaseException):
    """Raised into a handler whose time to finish is over: its `finally` blocks run, its `except Exception` do not."""


def run(function: Callable[..., Any], payload_json: str | None, context: object = None) -> Outcome:
    """Call the handler with the payload's members as keyword arguments; whatever it raises is an outcome too."""
    try:
        result = _begin(function, payload_json, context)
        return _NOTHING if result is None else _done(result)
    except Interrupted:
        raise
    except BaseException as problem:  # SystemExit, KeyboardInterrupt and a cancelled coroutine are failures too
        return _raised(problem)


async def run_coroutine(function: Callable[..., Any], payload_json: str | None, context: object = None) -> Outcome:
    """The same for a coroutine, in the loop that runs this one."""
    try:
        result = await _begin(function, payload_json, context)
        return _NOTHING if result is None else _done(result)
    except BaseException as problem:
        return _raised(problem)


def _raised(problem: BaseException) -> Outcome:
    if isinstance(problem, Snooze):
        return Snoozed(problem.after, problem.note)
    return Failed(told(problem), again=not isinstance(problem, GiveUp))


def after_cancel(reason: str, outcome: Outcome) -> Outcome:
    """What came of a job that was told to end. A time-out is one, whatever its handler made of it."""
    if reason == DEADLINE:
        return Failed(TIMED_OUT, reason=TIMEOUT)
    if reason == STOPPED and not isinstance(outcome, Failed):
        return outcome
    return Released(CUT_SHORT if reason == STOPPED else CALLED_OFF)


@cache
def wants_context(function: Callable[..., Any]) -> bool:
    return CONTEXT in signature(function).parameters


def _begin(function: Callable[..., Any], payload_json: str | None, context: object) -> Any:
    """Call it; `context` None: it does not ask for one."""
    payload = None if payload_json is None else _decode(payload_json)
    extra = {} if context is None else {CONTEXT: context}
    if isinstance(payload, dict):
        return function(**payload, **extra)
    return function(**extra) if payload is None else function(payload, **extra)


def _decode(text: str) -> Any:
    """The payload as a value."""
    try:
        return sound(text)
    except ValueError as problem:
        raise Unreadable(f"the payload cannot be read: {problem}") from None


def _done(result: Any) -> Outcome:
    text = _encode(result)
    try:
        sound(text, result)
    except ValueError as problem:
        return Failed(f"the result cannot be written as JSON: {problem}")
    size = len(text) if text.isascii() else len(text.encode())
    if size > LARGEST_RESULT:
        return Failed(f"the result is too large: {size:,} bytes, at most {LARGEST_RESULT:,}", again=False)
    return Done(text)


def told(problem: BaseException) -> str:
    """The error as people read it: what was raised, and where in the handler."""
    import traceback

    kind = type(problem).__name__
    try:
        text = str(problem)[:LONGEST_TEXT]
    except Exception:
        text = ""
    first = f"{kind}: {text}" if text else kind
    frames = traceback.extract_tb(problem.__traceback__)
    if isinstance(problem, RotaError) or not frames:
        return first
    last = frames[-1]
    if last.filename == __file__ and isinstance(problem, TypeError):  # the call itself: nothing of the user's has run
        return f"{first}: the members of the payload are its arguments, by name"
    return f"{first} (line {last.lineno} of {last.filename.rpartition('/')[2]}, in {last.name})"
