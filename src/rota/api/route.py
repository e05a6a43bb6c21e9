"""A route: a method, a path, the scope it needs, and its handler. The API is a table of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Struct

OPEN = None
JSON, SSE, TEXT, HTML = "application/json", "text/event-stream", "text/plain; version=0.0.4; charset=utf-8", "text/html"


class Route(Record):
    """One operation of the API. `run` is `(store, request) -> document` and runs in a thread of the store pool.

    `is_async`: `run` is a coroutine function of the request alone.
    `scope`: what the caller's token must allow. OPEN admits every caller on this machine without a token.
    `public`: no authentication at all, because the path itself is proof enough.
    `may_write`: a GET that runs due maintenance before it reads, so it must not run in a read transaction.
    `inline`: usually takes microseconds; on SQLite it runs in the event loop, and moves to a thread if it takes long.
    `single_use`: its GET consumes something, so HEAD is refused. Streams refuse HEAD as well.
    `on_sqlite`: a coroutine function of the request that replaces `run` on SQLite.
    `operation`: the operation id, where it is not the module and the function of `run`.
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
    may_write: bool = False
    inline: bool = False
    single_use: bool = False
    on_sqlite: Callable[..., Any] | None = None
    operation: str | None = None

    @property
    def name(self) -> str:
        """The operation id: the noun and the verb. Clients are generated from it, so it outlives moves of the code."""
        return self.operation or f"{self.run.__module__.rpartition('.')[2]}.{self.run.__name__}"
