"""How the words of a command line are read: one function per kind that an argument or option names."""

from __future__ import annotations

import os

from rota.core.errors import BadInput
from rota.core.ids import job_id, queue_name
from rota.core.times import MINUTE, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rota.core.times import Duration

NOTHING_READY = 0  # no job has this id: what `jq` makes of an empty list
NO_LIMIT = "none"


def read(kind: str, text: str, name: str) -> Any:
    """Return the value of one word; `name` is the argument or option, for the error message."""
    try:
        return KINDS[kind](text)
    except BadInput as problem:
        if name.startswith("--"):
            raise BadInput(f"{name}: {problem}") from None
        raise


def _job_or_null(text: str) -> int:
    return NOTHING_READY if text in ("", "null") else job_id(text)


def _jobs(text: str) -> list[int]:
    """Read ids separated by commas or blanks."""
    ids = [job_id(word) for word in text.replace(",", " ").split()]
    if not ids:
        raise BadInput(f"{text!r} names no job: write for example 4,5")
    return ids


def _worker(text: str) -> str:
    if not text.strip():
        raise BadInput("the worker id is empty: did `rota worker register` fail?")
    return text


def _token(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise BadInput(f"{text!r} is not a token: they are whole numbers, as `rota claim` prints them")


def _integer(text: str) -> int:
    if text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) < 19:
        return int(text)
    raise BadInput(f"{text!r} is not a whole number")


def _whole(text: str) -> int:
    if (number := _integer(text)) < 0:
        raise BadInput(f"{text!r} is less than nothing: write 0 or more")
    return number


def _count(text: str) -> int:
    if (number := _integer(text)) < 1:
        raise BadInput(f"{text!r} is too few: write 1 or more")
    return number


def _number(text: str) -> float:
    digits = text.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit() and len(text) < 19):
        raise BadInput(f"{text!r} is not a number: write for example 12.5")
    return float(text) if "." in text else int(text)


def _duration(text: str) -> Duration:
    _refuse_negative(text)
    return parse_duration(text)


def _lease(text: str) -> Duration:
    _refuse_negative(text)
    if lease := parse_duration(text, MINUTE):
        return lease
    raise BadInput("a lease must be longer than nothing: write for example 30m")


def _refuse_negative(text: str) -> None:
    if text.strip().startswith("-"):
        raise BadInput(f"{text!r} is less than nothing: write for example 90s, 30m or 2h")


def _pool(text: str) -> tuple[str, int]:
    queue, _, count = text.partition("=")
    try:
        return queue_name(queue), _count(count)
    except BadInput:
        raise BadInput(f"{text!r} is not a pool: write for example tag=2") from None


def _program(text: str) -> tuple[str, str]:
    from rota.settings import words_of

    queue, _, command = text.partition("=")
    try:
        words_of("", command)
        return queue_name(queue), command
    except BadInput:
        raise BadInput(f"{text!r} is not a program of a pool: write for example tag='node worker.mjs'") from None


def _scale(text: str) -> tuple[str, int]:
    queue, _, count = text.partition("=")
    try:
        return queue_name(queue), _whole(count)
    except BadInput:
        raise BadInput(f"{text!r} is no size: write for example tag=4") from None


def _limit(text: str) -> int | str:
    """Read a number, or the word that removes a limit."""
    return text if text == NO_LIMIT else _count(text)


def _json(text: str) -> str:
    """Return JSON text as given, from `@file` or from standard input. The store validates it."""
    from rota.core.jsontext import Raw
    from rota.store.jobs.payload import LARGEST

    most = LARGEST + 1
    if text == "-":
        import sys

        data = sys.stdin.buffer.read(most)
    elif text.startswith("@"):
        try:
            with open(os.path.expanduser(text[1:]), "rb") as file:
                data = file.read(most)
        except OSError as problem:
            raise BadInput(f"{text[1:]} cannot be read: {problem.strerror}") from None
    else:
        return Raw(text)
    try:
        return Raw(data.decode() if len(data) < most else data.decode("utf-8", "replace"))
    except UnicodeDecodeError:
        raise BadInput(f"{'standard input' if text == '-' else text[1:]} is not UTF-8 text") from None


KINDS: dict[str, Callable[[str], Any]] = {
    "text": str,
    "job": job_id,
    "jobs": _jobs,
    "job_or_null": _job_or_null,
    "worker": _worker,
    "queue": queue_name,
    "token": _token,
    "integer": _integer,
    "whole": _whole,
    "count": _count,
    "number": _number,
    "duration": _duration,
    "lease": _lease,
    "limit": _limit,
    "pool": _pool,
    "program": _program,
    "scale": _scale,
    "json": _json,
}
