"""What keeps the store consistent and small: the maintenance tick, reconcile, schedules that fall due, pruning.

All of it is bounded and safe to repeat, because any process may run it. Start at `tick.py`.
"""
