"""The store's database on PostgreSQL, through psycopg: pipelined transactions, LISTEN, roles.

The only code that imports psycopg besides `tracking`. Start at `database.py`; decisions 14, 25 and 32 explain the
locks and round trips.
"""
