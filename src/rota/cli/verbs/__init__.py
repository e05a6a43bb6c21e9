"""The functions behind the verbs, one file per noun, and the tables that declare them.

A file of a hot verb imports next to nothing at module level (decision 5). Start at `claims.py` for a hot verb and
`schedules.py` for an ordinary one.
"""
