"""Slots whose workers cannot stay: backoff, limits, and nothing started that should not be."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from rota.store.directives import unacknowledged
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

BROKEN = "raise SystemExit('no such model')\n"


def started(crew: Crew) -> int:
    return len(crew.said("started, pid"))


def lifetime(crew: Crew) -> int:
    return sum(slot.history.lifetime for slot in crew.app.store.slots.all())


def scale_away_during_backoff(crew: Crew) -> int:
    """Scale the slot away and return when it would have started again: not before the orchestrator knew.

    A busy machine may be too late for one backoff; the next is twice as long.
    """
    store = crew.app.store
    while True:
        eventually(lambda: crew.slot(0) == "backoff")
        due = store.slots.all()[0].start_at or 0
        crew.call("scale", "tag=0")
        eventually(lambda: not unacknowledged(store, store.orchestrators.last_directive()))
        if store.now() < due:
            return due
        crew.call("scale", "tag=1")


@pytest.mark.both_stores
def test_a_crash_on_boot_backs_off_fails_and_comes_back_by_reset_alone(crew: Crew) -> None:
    """Fault 15: an orchestrator restart in between changes nothing. The seconds are `test_restart`'s."""
    crew.env["ROTA_RESTART_BACKOFF"] = "10ms"
    good = (crew.folder / "shop.py").read_text()
    (crew.folder / "shop.py").write_text(BROKEN)
    crew.start("tag=1")
    eventually(lambda: lifetime(crew) >= 2)
    assert crew.stop() == 0
    crew.start("tag=1")
    eventually(lambda: crew.slot(0) == "failed")
    slot = crew.app.store.slots.all()[0]
    assert (slot.history.lifetime, len(slot.history.restarts)) == (5, 5)
    assert slot.history.failure_reason == "restarted 5 times within 300 s"
    assert crew.said("no such model")
    (crew.folder / "shop.py").write_text(good)
    assert crew.stop() == 0
    crew.start("tag=1")
    id = crew.add("tag", n=3)
    crew.call("reset", "worker:tag:0")
    assert crew.done(id)[0].result == 3
    assert lifetime(crew) == 0


def test_a_stop_during_backoff_starts_nothing_and_keeps_the_counts(crew: Crew) -> None:
    """Fault 19."""
    crew.env["ROTA_RESTART_BACKOFF"] = "1m"
    (crew.folder / "shop.py").write_text(BROKEN)
    crew.start("tag=2")
    eventually(lambda: (crew.slot(0), crew.slot(1)) == ("backoff", "backoff"))
    assert crew.stop() == 0
    assert (started(crew), lifetime(crew)) == (2, 2)
    assert {slot.status for slot in crew.app.store.slots.all()} <= {"backoff", "empty"}


def test_a_paused_queue_starts_nothing_when_the_backoff_is_over_and_resume_does(crew: Crew) -> None:
    """Fault 19."""
    crew.env["ROTA_RESTART_BACKOFF"] = "300ms"
    good = (crew.folder / "shop.py").read_text()
    (crew.folder / "shop.py").write_text(BROKEN)
    crew.call("pause", "tag")
    crew.start("tag=1")
    eventually(lambda: crew.slot(0) == "backoff")
    due = crew.app.store.slots.all()[0].start_at or 0
    eventually(lambda: crew.app.store.now() > due + 1_500_000)
    assert (crew.slot(0), started(crew), lifetime(crew)) == ("backoff", 1, 1)
    (crew.folder / "shop.py").write_text(good)
    crew.call("resume", "tag")
    eventually(lambda: crew.up(1))
    assert (started(crew), lifetime(crew)) == (2, 1), "pause and resume change no count"


def test_a_slot_scaled_away_during_backoff_starts_nothing_and_keeps_its_counts(crew: Crew) -> None:
    """Fault 19."""
    crew.env["ROTA_RESTART_BACKOFF"] = "2s"
    (crew.folder / "shop.py").write_text(BROKEN)
    crew.start("tag=1")
    due = scale_away_during_backoff(crew)
    before = (started(crew), lifetime(crew))
    eventually(lambda: crew.app.store.now() > due + 1_000_000)
    assert (started(crew), lifetime(crew)) == before
    crew.call("scale", "tag=1")
    eventually(lambda: started(crew) > before[0])
    assert lifetime(crew) >= before[1], "its history is its own again"
    assert crew.stop() == 0


def test_where_no_process_may_be_started_the_orchestrator_lives_and_tries_again(crew: Crew) -> None:
    """Fault 17: the system refuses, because this user has as many processes as it may; later it has room again."""
    user = str(100_000 + os.getpid())
    become = ("setpriv", "--reuid", user, "--clear-groups", "--inh-caps", "+dac_override")
    own = crew.folder / "own"
    own.mkdir()
    os.chown(own, int(user), -1)
    crew.env["XDG_RUNTIME_DIR"] = str(own)
    crew.start("tag=1", under=(*become, "--ambient-caps", "+dac_override"))

    def allow(processes: str) -> None:
        subprocess.run([*become, "prlimit", "--pid", str(crew.pid), f"--nproc={processes}:"], check=True)

    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    allow("1")
    with crew.app.store.write():
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: crew.said("ended by signal 9"))
    eventually(lambda: len(crew.said("could not be started")) >= 2)
    assert crew.said("Resource temporarily unavailable")
    assert (crew.app.jobs.get(id).status, crew.slot(0)) == ("ready", "backoff")
    assert lifetime(crew) == 1
    allow("1000")
    eventually(lambda: crew.held_by("a") != pid)
    crew.let_go("a")
    done = crew.done(id)[0]
    assert (done.attempts, done.deaths) == (2, 1)
    assert crew.stop() == 0
