"""The orchestrator: keeps slots filled with worker processes, dispatches jobs to them and watches their health.

An event loop on one thread and the store on another (decision 9). Imports the store, `process` and `core`, never
`worker`: the two share only frames. Start at `supervisor.py`, then `dispatch.py` (work) and `health_checks.py`
(periodic checks); `main.py` runs it.
"""
