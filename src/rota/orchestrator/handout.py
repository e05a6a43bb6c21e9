"""How many jobs a worker is handed at a time: one while they are long, more while they are short."""

from __future__ import annotations

from rota.core.record import Record
from rota.core.times import MILLISECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Duration

MOST = 64
SPAN: Duration = 30 * MILLISECOND
STUCK: Duration = 4 * SPAN


class Window(Record):
    """What is known of a worker's jobs: how long they take, smoothed."""

    usual: Duration = SPAN

    def after(self, took: Duration, jobs: int) -> Window:
        """Learn from jobs that ended; a long one is believed at once, short ones little by little."""
        each = took // max(1, jobs)
        return Window(each if each > self.usual else (3 * self.usual + each) // 4)

    @property
    def size(self) -> int:
        """As many as fit in a few tens of milliseconds, and at least one."""
        return max(1, min(MOST, SPAN // max(1, self.usual)))
