"""The store's database on SQLite, through apsw: one connection, a fair lock for writers, notification files.

The only code that imports apsw. Start at `database.py`; decisions 1, 8 and 34 explain the library, creation and
locks.
"""
