"""`rota bench`: how fast rota is on this machine, beside how fast the machine would let it be.

Start at `run.py`, which lists the measurements.
"""
