"""What finishes the job of a worker whose orchestrator is gone (decision 10).

`start.py` runs in the worker; `helper.py` is the process that it starts, which speaks the orchestrator's side of the
frames and settles in the store.
"""
