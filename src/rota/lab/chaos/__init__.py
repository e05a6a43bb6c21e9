"""`rota chaos`: a real crew broken on purpose, and the invariants that must still hold.

A seed draws the plan (`plan.py`), `scenario.py` carries it out, a ledger process records what handlers really did,
and `invariants.py` judges the snapshot at the end. Start at `run.py`.
"""
