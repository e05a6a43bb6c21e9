"""The store over the HTTP API, behind the same ports (decision 20).

For hosts that cannot reach the database. Start at `store.py`.
"""
