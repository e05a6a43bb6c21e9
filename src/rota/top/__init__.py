"""`rota top`: the live state on a terminal. The only package that imports textual.

Reads the store on a thread of its own and acts through it. Start at `app.py`, then `rows.py`, which decides what the
panes show.
"""
