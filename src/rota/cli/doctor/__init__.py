"""`rota doctor`: checks of the database, the server, the folder, the app and the orchestrator.

A check returns a finding with a level and what to do about it. Start at `checks.py`, which lists them.
"""
