"""The hand-written parser of the hot verbs, and one function per kind of value that an argument or option may have.

It imports next to nothing, because bash loops pay for imports (decision 5). Both parsers end in `values`.
"""

from __future__ import annotations

import os
import sys

from rota.cli.verb import GLOBAL, Option
from rota.core.errors import BadInput
from rota.core.ids import job_id, queue_name
from rota.core.jsontext import Raw
from rota.core.times import MINUTE, parse_duration
from rota.settings import words_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rota.cli.verb import Argument, Verb
    from rota.core.times import Duration

    Texts = dict[str, list[str]]

NOTHING_READY = 0  # stands for the `null` that `jq` prints for an empty list; no job has this id
NO_LIMIT = "none"
BARE = ""  # the text of an option that was given without its value


def read(kind: str, text: str, name: str) -> Any:
    """Return the value of one word; `name` is the argument or option, for the error message.

    Raises:
        BadInput: The word is not of this kind.
    """
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
    from rota.store.jobs.payload import LARGEST

    most = LARGEST + 1
    if text == "-":
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


def split(verb: Verb, words: Sequence[str]) -> Texts:
    """Return the texts of each argument and option."""
    flags = {option.flag: option for option in (*GLOBAL, *verb.options)}
    texts: Texts = {}
    positional: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            positional += rest
            break
        if not looks_like_option(word):
            positional.append(word)
            continue
        flag, equals, text = word.partition("=")
        option = flags.get(flag)
        if option is None:
            raise unknown_option(verb, flag)
        texts.setdefault(option.key, []).append(text if equals else value(option, rest))
        if equals and option.metavar is None:
            raise BadInput(f"{flag} takes no value")
    place(verb, positional, texts)
    return texts


def looks_like_option(word: str) -> bool:
    """Return whether a word is an option. `-5` is not: it is a mistyped id, and is reported as one."""
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit()


def values(verb: Verb, texts: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the value of every argument and option by its key; a missing one comes from the environment, or is None.

    Raises:
        BadInput: A text is not of the declared kind, or a required argument or option is missing.
    """
    result: dict[str, Any] = {}
    parameters: tuple[Argument | Option, ...] = (*verb.arguments, *verb.options)
    for parameter in parameters:
        written = texts.get(parameter.key)
        if not written and parameter.env and environment.get(parameter.env) and not _is_bare(parameter):
            written = [environment[parameter.env]]
        if written:
            result[parameter.key] = _read(parameter, written, environment)
        elif parameter.required:
            or_env = f", or set {parameter.env}" if parameter.env else ""
            raise BadInput(f"{verb.name} needs {parameter.label}{or_env}: {verb.usage}")
        else:
            result[parameter.key] = None
    return result


def _read(parameter: Argument | Option, texts: Sequence[str], environment: Mapping[str, str]) -> Any:
    if _is_switch(parameter):
        return True
    if not parameter.many:
        once(parameter.label, texts)
    if _is_bare(parameter) and texts[-1] == BARE:
        default = environment.get(parameter.env or "")
        return read(parameter.kind, default, parameter.label) if default else BARE
    if parameter.many:
        items = [read(parameter.kind, text, parameter.label) for text in texts]
        if parameter.kind in ("pool", "scale"):
            _refuse_two_sizes([queue for queue, _ in items])
        return [item for part in items for item in part] if parameter.kind == "jobs" else items
    if parameter.choices and texts[-1] not in parameter.choices:
        raise BadInput(f"{parameter.label}: {texts[-1]!r} is not one of {', '.join(parameter.choices)}")
    return read(parameter.kind, texts[-1], parameter.label)


def _refuse_two_sizes(queues: Sequence[str]) -> None:
    for queue in queues:
        if (times := queues.count(queue)) > 1:
            raise BadInput(f"{queue} was given {times} sizes: give it one")


def once(label: str, texts: Sequence[str]) -> str:
    """Return the text of an option that takes one; refuse two."""
    if len(texts) > 1:
        raise BadInput(f"{label} was given {len(texts)} times, as {' and '.join(map(repr, texts))}: give it once")
    return texts[0]


def value(option: Option, rest: list[str]) -> str:
    """Take an option's value from the words after it."""
    if option.metavar is None:
        return BARE
    if rest and not rest[0].startswith("--"):
        return BARE if option.bare and rest[0].startswith("-") else rest.pop(0)
    if option.bare:
        return BARE
    raise BadInput(f"{option.flag} needs a value: {option.flag} {option.metavar}")


def place(verb: Verb, positional: list[str], texts: Texts) -> None:
    """Assign the positional words to the arguments; the last may take many."""
    for argument in verb.arguments:
        if positional:
            texts[argument.key] = positional if argument.many else [positional.pop(0)]
            positional = [] if argument.many else positional
    if positional:
        raise BadInput(f"{verb.name} has no place for {positional[0]!r}: {verb.usage}")


def _is_switch(parameter: Argument | Option) -> bool:
    return isinstance(parameter, Option) and parameter.metavar is None


def _is_bare(parameter: Argument | Option) -> bool:
    return isinstance(parameter, Option) and parameter.bare


def unknown_option(verb: Verb, flag: str) -> BadInput:
    """Return the error for an unknown option, with the nearest name."""
    from difflib import get_close_matches

    near = get_close_matches(flag, [option.flag for option in (*GLOBAL, *verb.options)], 1)
    hint = f"did you mean {near[0]}?" if near else f"`rota {verb.name} --help` shows those it has"
    dashed = "" if flag.startswith("--") else "; put -- before a word that starts with a dash"
    return BadInput(f"{verb.name} has no option {flag}: {hint}{dashed}")
