"""The live feed over the API: its server-sent events as the documents that they carry."""

from __future__ import annotations

import time

from rota.core.errors import StoreAway
from rota.core.jsontext import decode
from rota.store.remote.client import LONGEST_PAUSE, PATIENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rota.store.remote.client import Link
    from rota.store.remote.http_connection import Connection


def follow(link: Link, patterns: Sequence[str], after: str | None) -> Iterator[dict[str, Any]]:
    """The feed without end; a stream that breaks goes on where it was, if the API is back soon."""
    return _follow(link, tuple(patterns), after, _open(link, tuple(patterns), after))


def _follow(
    link: Link, patterns: tuple[str, ...], last: str | None, connection: Connection
) -> Iterator[dict[str, Any]]:
    while True:
        try:
            for document in _documents(connection):
                last = document["id"]
                yield document
        except (OSError, ValueError):  # broken, or silent for longer than its keep-alives allow
            pass
        finally:
            connection.close()
        connection = _open_again(link, patterns, last)


def _open(link: Link, patterns: tuple[str, ...], last: str | None) -> Connection:
    return link.stream("/events", last, topics=patterns or None)


def _open_again(link: Link, patterns: tuple[str, ...], last: str | None) -> Connection:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return _open(link, patterns, last)
        except StoreAway:
            if time.monotonic() > deadline:
                raise
            time.sleep(LONGEST_PAUSE)


def _documents(connection: Connection) -> Iterator[dict[str, Any]]:
    """What the events say that have no name; one that has, such as `alive`, is no news."""
    rest, is_named = b"", False
    for piece in connection.pieces():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if not line:
                is_named = False
            elif line.startswith(b"event:"):
                is_named = True
            elif line.startswith(b"data: ") and not is_named:
                yield decode(line[6:].decode())
