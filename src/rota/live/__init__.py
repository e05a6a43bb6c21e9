"""The live state of a system: topic snapshots and changes, the event log, throughput, and attention.

Reads the store and never writes to it; the command line, `rota top`, the API and `app.events` share it. Start at
`feed.py`.
"""
