"""Ids as people and programs read them."""

from __future__ import annotations

from rota.core.errors import BadInput

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
MOST_ID = (1 << 63) - 1
MOST = 1_000_000_000  # of anything that is counted
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


def base36(number: int, width: int = 8) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text.rjust(width, "0")


def run_id(token: int) -> str:
    """A run is named after its claim's token."""
    return f"run-{base36(token)}"


def token_of(run_id: str) -> int:
    """The token of the claim that a run is named after."""
    prefix, _, digits = run_id.partition("-")
    if prefix == "run" and 8 <= len(digits) <= 12 and set(digits) <= set(_DIGITS):
        return int(digits, 36)
    raise BadInput(f"{run_id!r} is not a run's id: they look like run-0000002s")


def worker_id(entropy: bytes) -> str:
    """A worker id made of at least six random bytes."""
    return f"worker-{base36(int.from_bytes(entropy, 'big') % 36**8)}"


def whole(what: str, value: object, least: int, most: int) -> int:
    """A whole number within these bounds, or what is wrong with it."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise BadInput(f"{what} must be a whole number from {least:,} to {most:,}, not {value!r:.40}")


def job_id(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise BadInput(f"{text!r} is not a job id: ids are whole numbers, as `rota list` shows them")


def queue_name(text: str) -> str:
    """A queue's name goes into topics, slots and metrics, so its letters are few."""
    if 0 < len(text) <= 64 and set(text) <= _NAME and text[0] not in "-.":
        return text
    raise BadInput(
        f"{text!r} is not a queue name: letters, digits, '_', '-' and '.', at most 64, not starting with '-' or '.'"
    )


def printable(text: str) -> str:
    """Without control characters: nothing that a job's data holds may steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
