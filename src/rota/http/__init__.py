"""The HTTP API: one ASGI app, the live feed as server-sent events, and metrics."""
