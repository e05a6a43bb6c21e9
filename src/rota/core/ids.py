"""Ids, names and counts as people and programs write them, and how they are checked."""

from __future__ import annotations

from rota.core.errors import BadInput

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
MOST_ID = (1 << 63) - 1
MOST = 1_000_000_000  # of anything that is counted
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


def base36(number: int, width: int = 8) -> str:
    """Write a number in digits and small letters, padded to a width with zeros."""
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text.rjust(width, "0")


def run_id(token: int) -> str:
    """Return the id of a run, which is its claim's token in base 36."""
    return f"run-{base36(token)}"


def token_of(run_id: str) -> int:
    """Return the token of the claim that a run is named after.

    Raises:
        BadInput: This is not the id of a run.
    """
    prefix, _, digits = run_id.partition("-")
    if prefix == "run" and 8 <= len(digits) <= 12 and set(digits) <= set(_DIGITS):
        return int(digits, 36)
    raise BadInput(f"{run_id!r} is not a run's id: they look like run-0000002s")


def worker_id(entropy: bytes) -> str:
    """Make a worker id of at least six random bytes."""
    return f"worker-{base36(int.from_bytes(entropy, 'big') % 36**8)}"


def whole(name: str, value: object, least: int, most: int) -> int:
    """Return a whole number within these bounds, or refuse the value under this name."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise BadInput(f"{name} must be a whole number from {least:,} to {most:,}, not {value!r:.40}")


def job_id(text: str) -> int:
    """Return the number of a job, or refuse the text."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise BadInput(f"{text!r} is not a job id: ids are whole numbers, as `rota list` shows them")


def queue_name(text: str) -> str:
    """Return the name of a queue, or refuse it: it is part of topics, slots and metrics, so few letters are valid."""
    if 0 < len(text) <= 64 and set(text) <= _NAME and text[0] not in "-.":
        return text
    raise BadInput(
        f"{text!r} is not a queue name: letters, digits, '_', '-' and '.', at most 64, not starting with '-' or '.'"
    )


def printable(text: str) -> str:
    """Return a text without control characters, so that no data of a job can control a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
