"""`rota mcp`: run a session over stdin and stdout."""

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

    from rota.mcp.session import SessionSettings
    from rota.store.store import Store

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(connect: Callable[[], Store], settings: SessionSettings) -> int:
    """Answer until the client closes stdin or a signal comes, then release what the session holds."""
    session = Session(connect, settings)

    def leave() -> None:
        """Exit at once: a thread blocks on stdin and cannot be interrupted."""
        session.close()
        os._exit(0)

    async def answer() -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, leave)
        await server(session).run_stdio_async()

    try:
        anyio.run(answer)
    except* OSError:  # the client has closed the pipe
        pass
    finally:
        session.close()
    return 0
