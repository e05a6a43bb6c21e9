"""Sources of work: one pass over the user's own data, run in a worker (decision 16).

Imports the store, because a pass adds what it found in its own transaction. Start at `filling.py`.
"""
