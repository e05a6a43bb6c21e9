"""`rota bench`: how fast rota is on this machine, beside the raw limits of the machine.

It may use the crews of `chaos`. Start at `measurements.py`, which lists what is measured.
"""
