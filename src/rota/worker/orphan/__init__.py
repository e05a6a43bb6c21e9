"""Finishing the job of a worker whose orchestrator is gone (decision 10).

`start.py` runs in the worker and imports no store. Start at `helper.py`, the process that the worker starts: it speaks
the orchestrator's side of the frames and settles in the store.
"""
