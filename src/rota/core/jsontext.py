"""A JSON writer for the hot verbs: `json` imports `re`, which costs as much as the rest of a heartbeat."""

from __future__ import annotations

import sys

from rota.core.errors import BadInput

try:
    from _json import encode_basestring
except ImportError:  # an interpreter without the C scanner
    from json.encoder import encode_basestring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_INFINITE = float("inf")
quote: Callable[[str], str] = encode_basestring
_made: list[Callable[[object], str]] = []


class Raw(str):
    """Text that is JSON already: written as it stands."""


def encode(value: object, indent: int | None = None) -> str:
    """`value` as JSON text: None, booleans, numbers, strings, `Raw`, and lists, tuples and dicts of these."""
    return "".join(_pieces(value, "\n" if indent else "", " " * (indent or 0)))


def compact(value: object) -> str:
    """The same without `Raw`, by the encoder in C where the program has loaded it anyway: an orchestrator has."""
    return encoder()(value) if "json" in sys.modules else encode(value)


def encoder() -> Callable[[object], str]:
    """The encoder in C, made once: making one costs more than using it."""
    if not _made:
        from json import JSONEncoder

        _made.append(JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode)
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
