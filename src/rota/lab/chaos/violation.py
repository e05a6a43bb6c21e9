"""One thing that should not be, by the number of the invariant that it breaks."""

from __future__ import annotations

from rota.core.record import Record


class Violation(Record):
    """`at`: so many seconds after the storm began, where it was seen while that blew."""

    invariant: str
    text: str
    at: float | None = None
