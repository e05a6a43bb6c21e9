"""A worker in the application's own process: `run_worker` with its two hooks, `execute` and `capture_io`.

Imports the application and the store, unlike other workers. Start at `run_worker.py`; `claim_session.py` has the claim.
"""
