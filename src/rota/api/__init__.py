"""The HTTP API: a Starlette app with JSON routes, server-sent events, metrics and the dashboard's files.

Imports everything below `api` and the web packages; nothing but `cli` and `lab` imports it, so the web packages load
in this process alone. Start at `app.py` (the table of routes), then `request.py` (one authenticated request) and a
file of `routes/`.
"""
