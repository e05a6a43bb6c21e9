"""Jobs: added, found, moved by people, made to wait for each other, explained, and the output of their runs.

Start at `jobs.py` (the port) and `enqueue.py` (how a job is added).
"""
