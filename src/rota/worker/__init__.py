"""A worker process: receives claims on its pipe, runs handlers, reports outcomes.

Imports `core` and `process`; it has no database connection. The parts that do know the store are listed in the import
contracts: `inprocess`, `orphan`, `sources`, and `store_access`. Start at `runtime.py`; `channel.py` has the pipe.
"""
