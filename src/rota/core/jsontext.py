"""A JSON writer and reader for the hot verbs: `json` imports `re`, which costs as much as the rest of a heartbeat."""

from __future__ import annotations

import sys

from rota.core.errors import BadInput

try:
    from _json import encode_basestring, encode_basestring_ascii
    from _json import make_encoder as _make_encoder
    from _json import make_scanner as _make_scanner
except ImportError:  # an interpreter without these in C
    from json.encoder import encode_basestring, encode_basestring_ascii

    _make_encoder = _make_scanner = None  # type: ignore[assignment, misc]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_INFINITE = float("inf")
quote: Callable[[str], str] = encode_basestring
_made: list[Callable[[object], str]] = []


class Raw(str):
    """Text that is JSON already: written as it stands."""


def encode(value: object, indent: int | None = None) -> str:
    """`value` as JSON text: None, booleans, numbers, strings, `Raw`, and lists, tuples and dicts of these."""
    return "".join(_pieces(value, "\n" if indent else "", " " * (indent or 0)))


def shown(text: str, ascii_only: bool = False) -> str:
    """JSON text as a terminal may have it: the same value, with an escape for each letter that could steer one."""
    return "\n".join(
        line if line.isprintable() and (line.isascii() or not ascii_only) else "".join(_escaped(line, ascii_only))
        for line in text.split("\n")
    )


def _escaped(line: str, ascii_only: bool) -> Iterator[str]:
    for letter in line:
        if letter.isprintable() and (letter.isascii() or not ascii_only):
            yield letter
        else:  # a tab or a return stands between two values, never in a text
            yield " " if letter in "\t\r" else encode_basestring_ascii(letter)[1:-1]


def decode(text: str) -> Any:
    """The value of a JSON text, by the scanner in C without the package around it; what is none is a ValueError."""
    if _scan is not None:
        try:
            value, end = _scan(text, 0)
            if end == len(text):
                return value
        except (StopIteration, SystemError):  # how it fails while `json`, which has its error, is not loaded
            pass
    from json import loads

    return loads(text)


class _Reading:
    """How the scanner reads: as `json.loads` does."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo = None


_scan: Callable[[str, int], tuple[Any, int]] | None = None if _make_scanner is None else _make_scanner(_Reading)  # type: ignore[arg-type]


def compact(value: object) -> str:
    """The same without `Raw`, by the encoder in C where the program has loaded it anyway: an orchestrator has."""
    return encoder()(value) if "json" in sys.modules else encode(value)


def encoder() -> Callable[[object], str]:
    """The encoder in C, made once: making one costs more than using it."""
    if not _made:
        from json import JSONEncoder

        plain = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        if _make_encoder is None:
            _made.append(plain.encode)
        else:  # `encode` makes one anew each time; without its list of what it is in, a circle ends as too deep
            pieces = _make_encoder(None, plain.default, encode_basestring, None, ":", ",", False, False, False)
            _made.append(lambda value: "".join(pieces(value, 0)))
    return _made[0]


def _pieces(value: object, line: str, step: str) -> Iterator[str]:
    if isinstance(value, Raw):
        yield value
    elif isinstance(value, str):
        yield quote(value)
    elif value is None:
        yield "null"
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, int | float):
        if value in (_INFINITE, -_INFINITE) or value != value:  # only NaN differs from itself
            raise BadInput(f"{value} has no JSON form")
        yield repr(value)
    elif isinstance(value, dict):
        yield from _body(
            "{", "}", ((f"{quote(key)}:{' ' if line else ''}", item) for key, item in value.items()), line, step
        )
    elif isinstance(value, list) and all(type(item) is int for item in value):
        yield f"[{','.join(map(str, value))}]"
    elif isinstance(value, list | tuple):
        yield from _body("[", "]", (("", item) for item in value), line, step)
    else:
        raise TypeError(f"{type(value).__name__} has no JSON form")


def _body(start: str, end: str, items: Iterator[tuple[str, object]], line: str, step: str) -> Iterator[str]:
    inner, comma = line + step if line else "", ""
    yield start
    for label, item in items:
        yield f"{comma}{inner}{label}"
        yield from _pieces(item, inner, step)
        comma = ","
    yield line + end if comma else end
