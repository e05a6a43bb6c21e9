"""Running one handler: the user's function, called with a job's payload, and what came of it as an outcome."""

from __future__ import annotations

import json
import traceback
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

from rota.core.claim import Done, Failed, Snoozed
from rota.core.errors import RotaError
from rota.core.jsontext import encoder
from rota.core.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Outcome
    from rota.core.times import Duration

LARGEST_RESULT = 256 * 1024
CONTEXT = "ctx"


class Snooze(Exception):
    """Raised by a handler to be called again after a while, such as `"10m"`; spends no attempt."""

    def __init__(self, after: str, note: str | None = None) -> None:
        super().__init__(f"try again in {after}")
        self.after: Duration = parse_duration(after)
        self.note = note


class GiveUp(Exception):
    """Raised by a handler to fail its job for good: no further attempt would help."""


def run(function: Callable[..., Any], payload_json: str | None, context: object = None) -> Outcome:
    """Call the handler with the payload's members as keyword arguments; whatever it raises is an outcome too."""
    try:
        result = _call(function, payload_json, context)
        text = encoder()(result)
        size = len(text.encode())
    except Snooze as asked:
        return Snoozed(asked.after, asked.note)
    except GiveUp as problem:
        return Failed(_told(problem), again=False)
    except BaseException as problem:  # SystemExit, KeyboardInterrupt and a cancelled coroutine are failures too
        return Failed(_told(problem))
    if size > LARGEST_RESULT:
        return Failed(f"the result is too large: {size:,} bytes, at most {LARGEST_RESULT:,}", again=False)
    return Done(None if result is None else text)


def _call(function: Callable[..., Any], payload_json: str | None, context: object) -> Any:
    payload = None if payload_json is None else json.loads(payload_json)
    extra = {CONTEXT: context} if _wants_context(function) else {}
    if payload is None:
        return function(**extra)
    return function(**{**payload, **extra}) if isinstance(payload, dict) else function(payload, **extra)


@cache
def _wants_context(function: Callable[..., Any]) -> bool:
    return CONTEXT in signature(function).parameters


def _told(problem: BaseException) -> str:
    """The error as people read it: what was raised, and where in the handler."""
    kind = type(problem).__name__
    first = f"{kind}: {problem}" if str(problem) else kind
    frames = traceback.extract_tb(problem.__traceback__)
    if isinstance(problem, RotaError) or not frames:
        return first
    last = frames[-1]
    return f"{first} (line {last.lineno} of {last.filename.rpartition('/')[2]}, in {last.name})"
