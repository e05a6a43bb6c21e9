"""Run one handler: call the user's function with a job's payload, and make an outcome of what it returns or raises."""

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
DEADLINE, CANCELLED, STOPPED = "deadline", "cancelled", "stopped"  # why a running job is told to end
TIMED_OUT = "ran past its time-out"
CUT_SHORT = "the worker stopped before this was finished"
CALLED_OFF = "called off"
# Most handlers return nothing, so this outcome is made once.
_NOTHING = Done()
_encode = encoder()


class Snooze(Exception):
    """Raised by a handler to be called again later; spends no attempt.

    Args:
        after: How much later, such as `"10m"`.
        note: A text for people, which the run shows.
    """

    def __init__(self, after: str, note: str | None = None) -> None:
        super().__init__(f"try again in {after}")
        self.after: Duration = parse_duration(after)
        self.note = note


class GiveUp(Exception):
    """Raised by a handler to fail its job for good: no further attempt would help."""


class Unreadable(GiveUp, BadInput):
    """The payload is not JSON that every reader takes, so it was not added through rota."""


class Interrupted(BaseException):
    """Raised into a handler whose time to finish is over: its `finally` blocks run, its `except Exception` do not."""


def run(function: Callable[..., Any], payload_json: str | None, context: object = None) -> Outcome:
    """Call a handler with the payload's members as keyword arguments; return its outcome, also if it raises."""
    try:
        result = _call(function, payload_json, context)
        return _NOTHING if result is None else _done(result)
    except Interrupted:
        raise
    # SystemExit, KeyboardInterrupt and a cancelled coroutine fail the job: the worker lives.
    except BaseException as problem:
        return _outcome_of(problem)


async def run_coroutine(function: Callable[..., Any], payload_json: str | None, context: object = None) -> Outcome:
    """Await a handler that is a coroutine function, like `run`."""
    try:
        result = await _call(function, payload_json, context)
        return _NOTHING if result is None else _done(result)
    except BaseException as problem:
        return _outcome_of(problem)


def _outcome_of(problem: BaseException) -> Outcome:
    if isinstance(problem, Snooze):
        return Snoozed(problem.after, problem.note)
    return Failed(describe(problem), again=not isinstance(problem, GiveUp))


def after_cancel(reason: str, outcome: Outcome) -> Outcome:
    """Return the outcome of a job that was cancelled, timed out or cut short."""
    # A time-out is one, whatever its handler made of it.
    if reason == DEADLINE:
        return Failed(TIMED_OUT, reason=TIMEOUT)
    if reason == STOPPED and not isinstance(outcome, Failed):
        return outcome
    return Released(CUT_SHORT if reason == STOPPED else CALLED_OFF)


@cache
def wants_context(function: Callable[..., Any]) -> bool:
    """Whether a handler has a parameter for its context. Read once per function, because a signature is slow."""
    return CONTEXT in signature(function).parameters


def _call(function: Callable[..., Any], payload_json: str | None, context: object) -> Any:
    """Call a handler; `context` is None if it does not ask for one."""
    payload = None if payload_json is None else _decode(payload_json)
    extra = {} if context is None else {CONTEXT: context}
    if isinstance(payload, dict):
        return function(**payload, **extra)
    return function(**extra) if payload is None else function(payload, **extra)


def _decode(text: str) -> Any:
    try:
        return sound(text)
    except ValueError as problem:
        raise Unreadable(f"the payload cannot be read: {problem}") from None


def _done(result: Any) -> Outcome:
    # A value that cannot be encoded raises here, and the caller makes a failure of it.
    text = _encode(result)
    try:
        sound(text, result)
    except ValueError as problem:
        return Failed(f"the result cannot be written as JSON: {problem}")
    size = len(text) if text.isascii() else len(text.encode())
    if size > LARGEST_RESULT:
        return Failed(f"the result is too large: {size:,} bytes, at most {LARGEST_RESULT:,}", again=False)
    return Done(text)


def describe(problem: BaseException) -> str:
    """Return an error as people read it: what was raised, and where in the handler."""
    import traceback

    kind = type(problem).__name__
    # `__str__` is the user's code, and may raise as well.
    try:
        text = str(problem)[:LONGEST_TEXT]
    except Exception:
        text = ""
    first = f"{kind}: {text}" if text else kind
    frames = traceback.extract_tb(problem.__traceback__)
    if isinstance(problem, RotaError) or not frames:
        return first
    last = frames[-1]
    # The call itself failed, and nothing of the user's has run: the payload does not fit the signature.
    if last.filename == __file__ and isinstance(problem, TypeError):
        return f"{first}: the members of the payload are its arguments, by name"
    return f"{first} (line {last.lineno} of {last.filename.rpartition('/')[2]}, in {last.name})"
