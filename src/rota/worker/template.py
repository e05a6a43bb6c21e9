"""Templates of a command's arguments: `{id}`, `{title}`, `{payload.path}` filled with one job's data.

Each argument stays one argument whatever the data holds. `{{` and `}}` are braces.
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
    """A piece of an argument: text of the template's own, or the path of a value."""

    text: str = ""
    path: tuple[str, ...] = ()


class Argument(Record):
    """One argument of a command."""

    source: str
    parts: tuple[Part, ...]

    def fill(self, job: Mapping[str, Any]) -> str:
        """The argument for this job, which has its payload as a value; `BadInput` says what is wrong with the data."""
        filled = "".join(part.text or self._value(part, job) for part in self.parts)
        if "\0" in filled:
            raise BadInput(f"the argument {self.source!r} would hold a zero character, which no argument can")
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
                told = "" if missing == whole else f", which {{{whole}}} needs"
                raise BadInput(f"the job has no {missing}{told}")
        return value if isinstance(value, str) else encoder()(value)


class Command(Record):
    """What runs for each job: its words as templates, and how long it may take, beside the job's own time-out."""

    arguments: tuple[Argument, ...]
    timeout: Duration | None = None


_MISSING = object()


def parse(words: Sequence[str]) -> tuple[Argument, ...]:
    """The arguments of a command, checked: the program is the template's own, never the data's."""
    if isinstance(words, str) or not words or not all(isinstance(word, str) for word in words):
        raise BadInput("a command is a list of words, the program first, such as ['convert', '{payload.path}']")
    arguments = tuple(Argument(word, tuple(_parts(word))) for word in words)
    if not words[0] or any(part.path for part in arguments[0].parts):
        raise BadInput(f"the program must be named by the command itself, not by a job's data: {words[0]!r}")
    return arguments


def fill(arguments: Sequence[Argument], job: Mapping[str, Any]) -> list[str]:
    """The words to run for this job."""
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
