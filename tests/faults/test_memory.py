"""A job that needs more memory than there is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.crews import Crew

GREEDY = '''
import ctypes, resource

PROCESSES = os.environ["PROCESSES"]


@app.task(queue="tag")
def greedy() -> None:
    """Use more memory than the limit: the system kills the process, or C code that did not look falls over."""
    note("greedy")
    if PROCESSES:
        pathlib.Path(PROCESSES).write_text(str(os.getpid()))
        bytearray(300 << 20)
    else:
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))
        libc.memset(ctypes.c_void_p(libc.malloc(ctypes.c_size_t(300 << 20))), 1, ctypes.c_size_t(300 << 20))
'''
LIMITS = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}


@pytest.fixture
def processes() -> Iterator[str]:
    """The file that takes a process into a group of 100 MB; empty where this machine lets us have no such group."""
    for root, limit in LIMITS.items():
        group = Path(root) / f"rota-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(100 << 20))
            yield str(group / "cgroup.procs")
            return
        except OSError:
            continue
        finally:
            eventually(lambda group=group: not group.rmdir())  # type: ignore[misc]
    yield ""


def test_a_job_that_hits_the_memory_limit_three_times_is_quarantined_and_its_slot_keeps_its_budget(
    crew: Crew, processes: str
) -> None:
    """Fault 11."""
    crew.teach(GREEDY)
    crew.env["PROCESSES"] = processes
    crew.start("tag=1")
    id = crew.add("greedy")
    failed = crew.app.jobs.wait([id], "final", 60_000_000)[0]
    assert (failed.status, failed.deaths) == ("failed", 3)
    assert "quarantined: cost 3 workers" in crew.app.jobs.why(id)
    assert crew.ledger() == ["greedy"] * 3
    assert {(death.reason, death.signal, death.job) for death in crew.deaths()} == {
        ("signaled", 9 if processes else 11, id)
    }
    eventually(lambda: crew.up(1))
    assert crew.app.store.slots.all()[0].history.lifetime == 1
    assert crew.done(crew.add("tag", n=7))[0].result == 7
