"""The bell over HTTP: a line whenever there may be something to claim, or somebody wishes something."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rota.api.route import SSE
from rota.core.errors import RotaError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from rota.api.request import Visit

KEEP_ALIVE = 15.0


class Ringing:
    """An ASGI response that goes on until its reader is gone, its token is revoked or the server ends."""

    def __init__(self, visit: Visit) -> None:
        visit.site.waiting.begin(visit.token)
        self._visit = visit
        self._bell = visit.site.work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", SSE.encode())]})
            while not gone.done() and not self._bell.is_over and await self._may_hear():
                seen = self._bell.rings
                await send({"type": "http.response.body", "body": b": ring\n\n", "more_body": True})
                await self._bell.wait(seen, KEEP_ALIVE, gone)
            if not gone.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            self._visit.site.waiting.end(self._visit.token)

    async def _may_hear(self) -> bool:
        """Whether its token still holds."""
        try:
            await self._visit.prove_with_others()
        except RotaError:
            return False
        return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
