"""`rota chaos`: break a real crew on purpose, and check the invariants that must still hold.

A seed draws the plan (`plan.py`), `scenario.py` carries it out on a `lab_crew.py`, a ledger process records what
handlers really did, and `invariants.py` judges the snapshot at the end. Start at `scenario.py`. Only the verb, `bench`
and the benchmarks import it; it may import everything below the command line.
"""
