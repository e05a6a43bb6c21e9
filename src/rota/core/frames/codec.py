"""Frames on a worker's pipe: text lines `KIND|{json}` that any language can speak. Bytes in, values out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.core.jsontext import encoder, has_escaped_half

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOL = 1
HELLO, HEALTH, PROGRESS, LOG, DONE, CHECKPOINT, RETURNED = (
    "HELLO",
    "HEALTH",
    "PROGRESS",
    "LOG",
    "DONE",
    "CHECKPOINT",
    "RETURNED",
)
RUN, RECALL, CANCEL, STOP, LOST, RENEWED = "RUN", "RECALL", "CANCEL", "STOP", "LOST", "RENEWED"
DROPPABLE = frozenset({HEALTH, PROGRESS, LOG})
LARGEST_REPORT, LARGEST = 64 * 1024, 1024 * 1024
_FROM_WORKERS = (HELLO, HEALTH, PROGRESS, LOG, DONE, CHECKPOINT, RETURNED)
_TO_WORKERS = (RUN, RECALL, CANCEL, STOP, LOST, RENEWED)
_KINDS = {kind.encode(): kind for kind in (*_FROM_WORKERS, *_TO_WORKERS)}
_encode = encoder()


class Frame(NamedTuple):
    """One message."""

    kind: str
    body: dict[str, Any]


def encode(kind: str, body: Mapping[str, Any]) -> bytes:
    """Return the frame as bytes. What UTF-8 cannot hold, such as half a file name, becomes a question mark."""
    return f"{kind}|{_encode(body)}\n".encode("utf-8", "replace")


class Decoder:
    """Cuts a stream of bytes into frames. What is no frame is counted as rubbish and ignored; nothing raises."""

    def __init__(self) -> None:
        self.rubbish = 0
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete with these bytes."""
        lines = self._lines(data)
        if self._skipping and lines:
            self._skipping = False
            del lines[0]
        if len(self._rest) > LARGEST:
            if not self._skipping:
                self.rubbish += 1
            self._rest, self._skipping = bytearray(), True
        frames = []
        for line in lines:
            frame = parse(line)
            if frame is None:
                self.rubbish += 1
            else:
                frames.append(frame)
        return frames

    def _lines(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete by now."""
        # A line that comes in many small pieces is searched once, not again with each of them.
        if b"\n" not in data:
            self._rest += data
            return []
        lines = (bytes(self._rest) + data if self._rest else data).split(b"\n")
        self._rest = bytearray(lines.pop())
        return lines


def parse(line: bytes) -> Frame | None:
    """Return a line as a frame; None if it is none. Half of a surrogate pair becomes a question mark."""
    kind, _, body = line.partition(b"|")
    name = _KINDS.get(kind)
    if name is None or len(line) > (LARGEST_REPORT if name in DROPPABLE else LARGEST):
        return None
    try:
        text = body.decode()
        value, end = _decoder.raw_decode(text) if text.startswith("{") else (None, -1)
        # There is space around the object, or it is wrong: the slower reader decides.
        if end != len(text):
            value = _decoder.decode(text)
        if has_escaped_half(text):
            value = json.loads(_encode(value).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return Frame(name, value) if isinstance(value, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# Made once: `json.loads` would make a decoder for each frame.
_decoder = json.JSONDecoder(parse_constant=_refuse)
