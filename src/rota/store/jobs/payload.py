"""JSON from callers: encode it, or check it as it is, and bound its size."""

from __future__ import annotations

from rota.core.errors import BadInput, TooLarge
from rota.core.jsontext import Raw, encoder, sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LARGEST = 256 * 1024


def encode(value: Any, what: str) -> str | None:
    """Encode a value as JSON text (None stays None); `Raw` text is checked and kept.

    Raises:
        BadInput: JSON cannot hold the value, or the text is not JSON.
        TooLarge: It has more than 256 KiB.
    """
    if value is None:
        return None
    if isinstance(value, Raw):
        text: str = value.strip()
        _refuse_large(text, what)
        check(text, what)
        return text
    try:
        text = encoder()(value)
        sound(text, value)
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadInput(f"the {what} cannot be written as JSON: {problem}") from None
    _refuse_large(text, what)
    return text


def check(text: str, what: str) -> None:
    """Refuse text that is not JSON, or that some JSON parser refuses."""
    try:
        sound(text)
    except ValueError as problem:
        raise BadInput(f'the {what} is not JSON ({problem}): write for example \'{{"path": "a.wav"}}\'') from None


def _refuse_large(text: str, what: str) -> None:
    size = len(text.encode("utf-8", "replace")) if len(text) > LARGEST // 4 else 0
    if size > LARGEST:
        raise TooLarge(
            f"the {what} is too large: {size:,} bytes, at most {LARGEST:,}; store it elsewhere and pass its path"
        )
