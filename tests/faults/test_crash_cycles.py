"""What an orchestrator uses stays the same, however often its workers crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.lab.chaos.crew_processes import vitals
from tests.support.eventually import eventually
from tests.support.processes import resident
from tests.support.tiers import times

if TYPE_CHECKING:
    from tests.support.crews import Crew

CRASHES = times(100, 500)
BOOM = """
import os
os.write(2, b"boom\\n")
os._exit(7)
"""


def test_crashes_leave_no_descriptor_thread_zombie_or_memory(crew: Crew) -> None:
    """Fault 14: after twenty crashes nothing grows any more; a descriptor or thread a crash would be seen at once."""
    crew.env |= {"ROTA_RESTART_BACKOFF": "1ms", "ROTA_RESTART_WINDOW": "1ms"}
    crew.env |= {"ROTA_RESTART_LIMIT": "100000", "ROTA_RESTART_LIFETIME": "100000"}
    (crew.folder / "shop.py").write_text(BOOM)
    crew.start("tag=4")
    eventually(lambda: len(crew.said("exited with code 7")) >= 20)
    before, size = vitals(crew.pid), resident(crew.pid)
    eventually(lambda: len(crew.said("exited with code 7")) >= CRASHES, within=110, every=0.1)

    def is_as_before() -> bool:
        """Workers come and go meanwhile: at some moment each count is back where it was, and none is unreaped."""
        return not vitals(crew.pid).exceeds(before) and resident(crew.pid) < size + 2_000_000

    eventually(is_as_before)
    assert crew.stop() == 0
    assert crew.processes() == []
