"""The live state of a system: snapshots per topic, changes, the event log as documents, and what needs attention.

Reads the store and never writes to it; the command line, `rota top`, the API and `app.events` share it. Start at
`feed.py`.
"""
