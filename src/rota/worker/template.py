"""Templates of a command's arguments: `{id}`, `{title}`, `{payload.path}`, filled with the data of a job.

Each argument stays one argument, whatever the data holds. `{{` and `}}` are braces.
"""

from __future__ import annotations

from rota.core.errors import BadInput
from rota.core.jsontext import encoder
from rota.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rota.core.times import Duration

PLAIN, PAYLOAD = ("id", "title", "queue", "kind"), "payload"
_KNOWN = "{id}, {title}, {queue}, {kind}, {payload} and {payload.NAME}"
_BRACE = "write {{ or }} for a brace itself"


class Part(Record):
    """A piece of an argument: literal text, or the path of a value."""

    text: str = ""
    path: tuple[str, ...] = ()


class Argument(Record):
    """One argument of a command."""

    source: str
    parts: tuple[Part, ...]

    def fill(self, job: Mapping[str, Any]) -> str:
        """Return the argument for a job; `payload` is a value.

        Raises:
            BadInput: The job lacks a value, or its data would change what the argument means.
        """
        filled = "".join(part.text or self._value(part, job) for part in self.parts)
        if "\0" in filled:
            raise BadInput(f"the argument {self.source!r} would hold a zero character, which no argument can")
        # Data must not become an option of the program.
        if filled.startswith("-") and not (self.parts and self.parts[0].text):
            raise BadInput(
                f"the argument {self.source!r} would begin with a dash because of the data, and so be an option: "
                "start it with text of your own, such as --name={title} or ./{payload.path}"
            )
        return filled

    def _value(self, part: Part, job: Mapping[str, Any]) -> str:
        value: Any = job
        for depth, name in enumerate(part.path):
            value = _member(value, name)
            if value is _MISSING:
                missing, whole = ".".join(part.path[: depth + 1]), ".".join(part.path)
                purpose = "" if missing == whole else f", which {{{whole}}} needs"
                raise BadInput(f"the job has no {missing}{purpose}")
        return value if isinstance(value, str) else encoder()(value)


class Command(Record):
    """A command that runs for each job: templates of its words, and a time-out besides that of the job."""

    arguments: tuple[Argument, ...]
    timeout: Duration | None = None


_MISSING = object()


def parse(words: Sequence[str]) -> tuple[Argument, ...]:
    """Return the arguments of a command. The program must be literal: data never chooses it.

    Raises:
        BadInput: A word has a brace that is not closed, or names what a job does not have.
    """
    if isinstance(words, str) or not words or not all(isinstance(word, str) for word in words):
        raise BadInput("a command is a list of words, the program first, such as ['convert', '{payload.path}']")
    arguments = tuple(Argument(word, tuple(_parts(word))) for word in words)
    if not words[0] or any(part.path for part in arguments[0].parts):
        raise BadInput(f"the program must be named by the command itself, not by a job's data: {words[0]!r}")
    return arguments


def fill(arguments: Sequence[Argument], job: Mapping[str, Any]) -> list[str]:
    """Return the words to run for a job."""
    return [argument.fill(job) for argument in arguments]


def _parts(word: str) -> list[Part]:
    parts: list[Part] = []
    text, rest = "", word
    while rest:
        if rest[:2] in ("{{", "}}"):
            text, rest = text + rest[0], rest[2:]
        elif rest[0] == "}":
            raise BadInput(f"{word!r} has a closing brace without an opening one: {_BRACE}")
        elif rest[0] == "{":
            name, closed, rest = rest[1:].partition("}")
            if not closed:
                raise BadInput(f"{word!r} has an opening brace without a closing one: {_BRACE}")
            parts += [Part(text)] if text else []
            parts.append(Part(path=_path(word, name)))
            text = ""
        else:
            text, rest = text + rest[0], rest[1:]
    return [*parts, Part(text)] if text else parts


def _path(word: str, name: str) -> tuple[str, ...]:
    first, *more = name.split(".")
    if (first in PLAIN and not more) or (first == PAYLOAD and all(more)):
        return (first, *more)
    raise BadInput(f"{word!r} has {{{name}}}, which is nothing of a job: known are {_KNOWN}; {_BRACE}")


def _member(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, _MISSING)
    if isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
        return value[int(name)]
    return _MISSING
