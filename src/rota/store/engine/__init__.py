"""What every part of the store builds on: database protocol, transactions, named statements, rows, locks, retries.

Knows SQL by name only and neither of the two databases. Start at `transaction.py`.
"""
