"""The form for systems without pidfd: the same promises, with the few calls that differ replaced."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.support.crews import children, is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew


def test_in_the_portable_form_a_killed_workers_job_runs_again_and_stop_leaves_nothing(crew: Crew) -> None:
    """Fault 1, and what a stop promises."""
    crew.env["ROTA_PORTABLE"] = "1"
    crew.start("tag=2")
    ids = [crew.add("hold", name="a"), *(crew.add("tag", n=n) for n in range(20))]
    first = eventually(lambda: crew.held_by("a"))
    os.kill(first, signal.SIGKILL)
    eventually(lambda: crew.held_by("a") != first)
    crew.let_go("a")
    done = crew.done(*ids)
    assert [(job.attempts, job.deaths) for job in done] == [(2, 1)] + [(1, 0)] * 20
    eventually(lambda: crew.up(2))
    assert [(death.reason, death.signal) for death in crew.deaths()] == [("signaled", 9)]
    everyone = [crew.pid, *children(crew.pid)]
    assert crew.stop() == 0
    assert not any(map(is_alive, everyone))
    assert crew.processes() == []
    assert crew.app.jobs.list("active") == []
    assert not (crew.folder / ".rota" / "rota.db.orchestrator").exists()


def test_in_the_portable_form_a_stopped_worker_is_seen_and_replaced(crew: Crew) -> None:
    """Fault 5."""
    crew.env |= {"ROTA_PORTABLE": "1", "ROTA_FRAME_INTERVAL": "50ms", "ROTA_SILENT_INTERVAL": "500ms"}
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: crew.held_by("a") != pid)
    crew.let_go("a")
    assert crew.done(id)[0].attempts == 2
    assert [death.reason for death in crew.deaths()] == ["heartbeat_timeout"]


def test_in_the_portable_form_an_orphan_is_adopted_and_its_end_is_seen(crew: Crew) -> None:
    """Fault 21: a process that is not our child is looked for again and again."""
    crew.env["ROTA_PORTABLE"] = "1"
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    assert crew.stop(signal.SIGKILL) == -signal.SIGKILL
    crew.start("tag=1")
    eventually(lambda: crew.said("works on alone"))
    crew.let_go("a")
    assert crew.done(id)[0].result == pid
    eventually(lambda: crew.up(1) and len(children(crew.pid)) == 1)
    assert crew.stop() == 0
