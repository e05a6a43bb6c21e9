"""`rota top`: the live state on a terminal. The only package that imports textual.

It reads the store on a thread of its own and acts through it; it may import everything below `cli`. Start at
`textual_app.py`, then `tables.py`, which decides what the panes show.
"""
