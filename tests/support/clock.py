"""A clock that moves only when a test moves it."""

from __future__ import annotations

from rota.core.times import Duration, Instant

START: Instant = 1_800_000_000_000_000


class FakeClock:
    """`now` is for leases, `wall` for schedules; both advance together, and the wall clock can be set apart."""

    def __init__(self, start: Instant = START) -> None:
        self._now = start
        self._ahead = 0

    def now(self) -> Instant:
        return self._now

    def wall(self) -> Instant:
        return self._now + self._ahead

    def advance(self, by: Duration) -> None:
        assert by >= 0, "the store's clock never goes back"
        self._now += by

    def jump_wall(self, by: Duration) -> None:
        """Set the wall clock forward or back, as an administrator would."""
        self._ahead += by
