"""Decisions as values: what becomes of a claim, a slot, a worker, a schedule, given the facts and the time.

Imports nothing of rota's and no I/O, clock, environment or thread. Start at `job.py` and `claim.py` for the states
and moves, then `restart.py` and `health.py` for what the orchestrator decides.
"""
