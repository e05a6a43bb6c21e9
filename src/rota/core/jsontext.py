"""JSON for the hot verbs: importing `json` would import `re`, as slow as the rest of a heartbeat (decision 5)."""

from __future__ import annotations

import sys

from rota.core.errors import BadInput

try:
    from _json import encode_basestring, encode_basestring_ascii
    from _json import make_encoder as _make_encoder
    from _json import make_scanner as _make_scanner
except ImportError:
    # An interpreter whose `json` is not accelerated in C.
    from json.encoder import encode_basestring, encode_basestring_ascii

    _make_encoder = _make_scanner = None  # type: ignore[assignment, misc]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_INFINITE = float("inf")
# A request to the API may have 64 levels, of which a value takes at most these.
DEEPEST = 60
# Digits. A longer integer may be beyond what a float can hold.
_LONGEST_NUMBER = 308
_UNREAD = object()
quote: Callable[[str], str] = encode_basestring
_encoders: list[Callable[[object], str]] = []


class Raw(str):
    """Text that is JSON already, and is written unchanged."""


def encode(value: object, indent: int | None = None) -> str:
    """Write a value as JSON text: None, booleans, numbers, strings, `Raw`, and lists, tuples and dicts of these.

    Raises:
        BadInput: A number is not finite.
        TypeError: The value has no JSON form.
    """
    return "".join(_pieces(value, "\n" if indent else "", " " * (indent or 0)))


def shown(text: str, ascii_only: bool = False) -> str:
    """Escape each letter of a JSON text that could control a terminal; the value stays the same."""
    return "\n".join(
        line if line.isprintable() and (line.isascii() or not ascii_only) else "".join(_escaped(line, ascii_only))
        for line in text.split("\n")
    )


def _escaped(line: str, ascii_only: bool) -> Iterator[str]:
    for letter in line:
        if letter.isprintable() and (letter.isascii() or not ascii_only):
            yield letter
        else:
            # JSON has a raw tab or return only between two values, never in a text.
            yield " " if letter in "\t\r" else encode_basestring_ascii(letter)[1:-1]


def decode(text: str) -> Any:
    """Read a JSON text, with the scanner in C but without the package `json` around it.

    Raises:
        ValueError: This is not JSON.
    """
    return _decoded(text, _scan, _Reading)


def sound(text: str, value: Any = _UNREAD) -> Any:
    """Read a JSON text, and check that every other reader accepts it too.

    Its numbers must be finite, its texts Unicode, and its levels at most `DEEPEST`: infinity is not JSON, `jq` and
    others refuse half of a surrogate pair, and each reader has its own limit of levels.

    Args:
        text: The JSON text.
        value: The value that the text was encoded from, which spares reading it again.

    Raises:
        ValueError: The text is not JSON, or some reader would refuse it; the message says why.
    """
    try:
        if value is _UNREAD or len(text) > _LONGEST_NUMBER:
            value = _decoded(text, _scan_sound, _Sound)
    except RecursionError:
        raise ValueError(f"it is nested too deeply: at most {DEEPEST} levels") from None
    if len(text) > 2 * DEEPEST and text.count("[") + text.count("{") > DEEPEST and _levels(value) > DEEPEST:
        raise ValueError(f"it is nested too deeply: at most {DEEPEST} levels")
    try:
        if not text.isascii():
            text.encode()
        if "\\" in text and has_escaped_half(text):
            compact(value).encode()
    except UnicodeEncodeError:
        raise ValueError("a text in it is not Unicode: it has half of a surrogate pair") from None
    return value


def has_escaped_half(text: str) -> bool:
    """Return whether a JSON text may have half of a surrogate pair: it has escapes of surrogates, mostly in pairs."""
    return "\\ud" in text or "\\uD" in text


def is_sound(text: str) -> bool:
    """Return whether every reader accepts this JSON text."""
    try:
        sound(text)
    except ValueError:
        return False
    return True


def _levels(value: object) -> int:
    """Return how deeply lists and dicts are nested."""
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, list | tuple | dict)]:
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
        depth += 1
    return depth


def _decoded(text: str, scan: Callable[[str, int], tuple[Any, int]] | None, reading: type[_Reading]) -> Any:
    if scan is not None:
        try:
            value, end = scan(text, 0)
            if end == len(text):
                return value
        except (StopIteration, SystemError):
            # Without `json`, whose error it would raise, the scanner fails like this. `loads` raises the right one.
            pass
    from json import loads

    return loads(
        text, parse_float=reading.parse_float, parse_int=reading.parse_int, parse_constant=reading.parse_constant
    )


class _Reading:
    """The settings of the scanner: it reads as `json.loads` does."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float: Callable[[str], Any] = float
    parse_int: Callable[[str], Any] = int
    parse_constant: Callable[[str], Any] = float
    memo = None


def _finite(text: str) -> float:
    if (value := float(text)) in (_INFINITE, -_INFINITE):
        raise ValueError(f"{text:.40} is out of range: a number is at most 1.797e308")
    return value


def _whole(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        _finite(text)
    return int(text)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


class _Sound(_Reading):
    """The settings of a scanner that refuses numbers that are not finite."""

    parse_float, parse_int, parse_constant = staticmethod(_finite), staticmethod(_whole), staticmethod(_refuse)


def _scanner(reading: type[_Reading]) -> Callable[[str, int], tuple[Any, int]] | None:
    return None if _make_scanner is None else _make_scanner(reading)  # type: ignore[arg-type]


_scan, _scan_sound = _scanner(_Reading), _scanner(_Sound)


def compact(value: object) -> str:
    """Write a value without `Raw` as JSON text, with the encoder in C if `json` is loaded, as in an orchestrator."""
    return encoder()(value) if "json" in sys.modules else encode(value)


def encoder() -> Callable[[object], str]:
    """Return the encoder in C. It is made once, because making one takes longer than using it."""
    if not _encoders:
        from json import JSONEncoder

        plain = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        if _make_encoder is None:
            _encoders.append(plain.encode)
        else:
            # `plain.encode` would make one for each call. Without a memo of the containers that it is in, a circular
            # value is refused as too deep.
            pieces = _make_encoder(None, plain.default, encode_basestring, None, ":", ",", False, False, False)
            _encoders.append(lambda value: "".join(pieces(value, 0)))
    return _encoders[0]


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
        # Only NaN differs from itself.
        if value in (_INFINITE, -_INFINITE) or value != value:
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
