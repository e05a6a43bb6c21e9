"""Workers, slots and orchestrators: registered, judged, marked dead, adopted.

Start at `registration.py` for external workers and `orchestrators.py` for what an orchestrator asks of the store.
"""
