"""Fetch pages, fifty at a time in each worker.

rota orchestrator start --app fetch:app --pool fetch=1
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from rota import App, Snooze

app = App()
app.pool("fetch", concurrency=50)


@app.setup(queue="fetch")
async def prepare() -> None:
    """Once in a worker's life, in its loop: at most ten connections at a time, whatever the pool has in hand."""
    app.context["gate"] = asyncio.Semaphore(10)


@app.task(queue="fetch", timeout="30s")
async def fetch(url: str, ctx) -> dict[str, object]:
    parts = urlsplit(url)
    async with ctx.gate:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        try:
            writer.write(f"GET {parts.path or '/'} HTTP/1.0\r\nHost: {parts.hostname}\r\n\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
    status = int(head.split()[1])
    if status == 503:
        raise Snooze("1m", f"{url} is busy")
    return {"url": url, "status": status, "bytes": len(body)}
