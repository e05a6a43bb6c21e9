"""The durable state, in the words of the domain: jobs, claims, workers, queues, sources, schedules, events.

Imports `core`, `process` and the settings; everything else reaches the database through it. Start at `store.py` (the
`Store` and its nouns), then `claims/exchange.py`, where an orchestrator settles and claims, and `sql/`, which holds
every statement by name.
"""
