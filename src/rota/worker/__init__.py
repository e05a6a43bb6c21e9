"""A worker process: receives claims on its pipe, runs handlers, reports outcomes.

Imports `core` and `process`; it has no database connection. The parts that do know the store are listed in the import
contracts: `inprocess`, `orphan`, `sources`, and two helpers that a handler asks for. Start at `runtime.py`.
"""
