"""A route: a method, a path, the scope it needs, and the function that answers. The API is a table of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Struct

OPEN = None
JSON, SSE, TEXT, HTML = "application/json", "text/event-stream", "text/plain; version=0.0.4; charset=utf-8", "text/html"


class Route(Record):
    """`run` is `(store, visit) -> document`, called in a thread, or a coroutine function of the visit alone.

    `scope` OPEN: anyone on this machine may ask. `public`: anyone at all; the path itself proves enough.
    `tends`: it looks after what is due before it answers, so it may write though it only reads.
    `quick`: mostly a glance; where the database is a file, a thread is asked only if it takes long.
    `once`: its GET uses something up, so it has no HEAD; nor has a stream, which never ends.
    `near`: a coroutine function of the visit that answers instead where the database is a file.
    """

    method: str
    path: str
    run: Callable[..., Any]
    scope: str | None
    about: str
    answer: Any
    body: type[Struct] | None = None
    query: type[Struct] | None = None
    media: str = JSON
    is_async: bool = False
    public: bool = False
    tends: bool = False
    quick: bool = False
    once: bool = False
    near: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """What a program calls it: the noun and the verb."""
        module = self.run.__module__.rpartition(".")[2]
        return f"{module}.{self.run.__name__}"
