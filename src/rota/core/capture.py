"""Where rota keeps what a command writes: two files a run, in a folder beside the database."""

from __future__ import annotations

FOLDER = "runs"
OUT, ERR = ".out", ".err"


def folder(database: str) -> str:
    """The folder for captures of this database, which is a path."""
    parent, slash, _ = database.rpartition("/")
    return f"{parent}{slash}{FOLDER}"
