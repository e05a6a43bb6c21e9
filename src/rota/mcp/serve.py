"""`rota mcp`: a session over stdin and stdout, from its first word to its clean end."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import anyio

from rota.mcp.session import Session
from rota.mcp.tools import server

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.mcp.session import Wanted
    from rota.store.store import Store

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(connect: Callable[[], Store], wanted: Wanted) -> int:
    """Answer until the client closes stdin or a signal comes; what the session holds goes back."""
    session = Session(connect, wanted)

    def leave() -> None:
        """At once: a thread waits for stdin and cannot be called away from it."""
        session.close()
        os._exit(0)

    async def answer() -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, leave)
        await server(session).run_stdio_async()

    try:
        anyio.run(answer)
    except* OSError:  # the client is gone, and reads no more
        pass
    finally:
        session.close()
    return 0
