"""The environment variables that say which run a process was started for.

A handler's run id is split over six variables of two digits each. A worker sets them anew for every job, and the C
library never frees the old value of a variable: with few possible values each, that memory stays bounded.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

OUT, ERR = ".out", ".err"  # the suffixes of the files that keep the output of a run's command
WHOLE, PREFIX = "ROTA_RUN_ID", "run-"
PIECES = tuple(f"ROTA_RUN_{number}" for number in range(1, 7))  # of two digits each
_AT = tuple(zip(PIECES, range(len(PREFIX), len(PREFIX) + 2 * len(PIECES), 2), strict=True))


def changes(before: str, run: str) -> list[tuple[str, str]]:
    """Return the variables that differ from those of the previous run, which is an empty text at first."""
    return [(name, run[at : at + 2]) for name, at in _AT if run[at : at + 2] != before[at : at + 2]]


def run_of(variable: Callable[[str], str | None]) -> str | None:
    """Return the id of the run that an environment names, or None.

    Args:
        variable: Returns the value of an environment variable. A handler has the id in pieces, a command in one.
    """
    digits = "".join(variable(name) or "" for name in PIECES)
    return PREFIX + digits if digits else variable(WHOLE)
