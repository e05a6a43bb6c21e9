"""JSON of requests and responses: documents are encoded by msgspec, bodies are decoded into the types of routes."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from rota.core.errors import BadInput
from rota.core.jsontext import Raw

T = TypeVar("T")
DEEPEST = 64
# A JSON string, closed or not. The quantifiers are possessive, so that crafted input cannot cause backtracking.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_AS_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_PLAIN = frozenset({str, int, float, bool, type(None)})
_encode = msgspec.json.Encoder().encode


def encode_document(document: object) -> bytes:
    """Return a document as JSON: the text that `rota.core.jsontext.encode` writes, but encoded in C."""
    return _encode(_with_raw(document))


def _with_raw(value: object) -> object:
    """Replace text that is JSON already by the type that msgspec copies unchanged."""
    if isinstance(value, dict):
        return {name: item if type(item) in _PLAIN else _with_raw(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [item if type(item) in _PLAIN else _with_raw(item) for item in value]
    return msgspec.Raw(value.encode()) if isinstance(value, Raw) else value


def decode_body(body: bytes, type: type[T]) -> T:
    """Decode a request body.

    Raises:
        BadInput: It is not JSON, is nested too deeply, or does not fit the type.
    """
    refuse_deep(body)
    try:
        return msgspec.json.decode(body, type=type)
    except msgspec.ValidationError as problem:
        raise BadInput(f"the body makes no sense: {problem}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise BadInput(f"the body is not JSON: {problem}") from None
    except RecursionError:
        raise BadInput("the body is nested too deeply") from None


def refuse_deep(body: bytes) -> None:
    """Refuse JSON nested more deeply than all readers accept. Each turn of the loop removes the innermost brackets."""
    if body.count(b"[") + body.count(b"{") <= DEEPEST:
        return
    brackets = _STRING.sub(b"", body).translate(_AS_SQUARE, _NOT_BRACKETS)
    for _ in range(DEEPEST):
        less = brackets.replace(b"[]", b"")
        if less == brackets:  # Either nothing is left, or it is not JSON and the decoder's message is better.
            return
        brackets = less
    if brackets:
        raise BadInput(f"the body is nested too deeply: at most {DEEPEST} levels")
