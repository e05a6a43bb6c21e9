"""The run that a process comes from, as its environment tells it: in pieces that have few values each.

Whoever runs job after job changes it each time, and the C library keeps every value that a variable ever had.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

OUT, ERR = ".out", ".err"  # the endings of the files that keep what the command of a run writes
WHOLE, PREFIX = "ROTA_RUN_ID", "run-"
PIECES = tuple(f"ROTA_RUN_{number}" for number in range(1, 7))  # of two digits each
_AT = tuple(zip(PIECES, range(len(PREFIX), len(PREFIX) + 2 * len(PIECES), 2), strict=True))


def changes(before: str, run: str) -> list[tuple[str, str]]:
    """The pieces that differ from those of the run before, which is empty at first."""
    return [(name, run[at : at + 2]) for name, at in _AT if run[at : at + 2] != before[at : at + 2]]


def run_of(told: Callable[[str], str | None]) -> str | None:
    """The run that an environment tells, in pieces as of a handler or whole as of a command; None when it does not."""
    digits = "".join(told(name) or "" for name in PIECES)
    return PREFIX + digits if digits else told(WHOLE)
