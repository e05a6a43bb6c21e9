"""How the two files are called in which rota keeps what the command of a run writes."""

from __future__ import annotations

OUT, ERR = ".out", ".err"
