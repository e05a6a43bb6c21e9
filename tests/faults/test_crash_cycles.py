"""What an orchestrator uses stays the same, however often its workers crash."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

from tests.support.crews import children, is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

BOOM = """
import os
os.write(2, b"boom\\n")
os._exit(7)
"""


def test_five_hundred_crashes_leave_no_descriptor_thread_zombie_or_memory(crew: Crew) -> None:
    """Fault 14: after twenty crashes nothing grows any more."""
    crew.env |= {"ROTA_RESTART_BACKOFF": "1ms", "ROTA_RESTART_WINDOW": "1ms"}
    crew.env |= {"ROTA_RESTART_LIMIT": "100000", "ROTA_RESTART_LIFETIME": "100000"}
    (crew.folder / "shop.py").write_text(BOOM)
    crew.start("tag=4")
    eventually(lambda: len(crew.said("exited with code 7")) >= 20)
    before = use(crew.pid)
    eventually(lambda: len(crew.said("exited with code 7")) >= 500, within=110, every=0.1)

    def is_as_before() -> bool:
        """Workers come and go meanwhile: at some moment each count is back where it was."""
        descriptors, threads, size = use(crew.pid)
        return descriptors <= before[0] and threads <= before[1] and size < before[2] + 2_000_000

    eventually(is_as_before)
    zombies = [pid for pid in children(crew.pid) if not is_alive(pid)]
    eventually(lambda: not set(zombies) & set(children(crew.pid)))
    assert crew.stop() == 0
    assert crew.processes() == []


def use(pid: int) -> tuple[int, int, int]:
    """How many descriptors, threads and bytes of memory a process has."""
    with open(f"/proc/{pid}/statm") as file:
        size = int(file.read().split()[1]) * resource.getpagesize()
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")), size
