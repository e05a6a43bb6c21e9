"""An orchestrator that is killed: its workers finish alone, and the next one takes over from where it was."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.crews import children, is_alive, told
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

pytestmark = pytest.mark.both_stores


def kill_orchestrator(crew: Crew) -> None:
    assert crew.stop(signal.SIGKILL) == -signal.SIGKILL


def test_a_worker_whose_orchestrator_is_gone_finishes_its_job_and_leaves(crew: Crew) -> None:
    """Fault 21."""
    crew.start("tag=1")
    id = crew.add("hold", name="g")
    pid = eventually(lambda: crew.held_by("g"))
    token = crew.app.jobs.get(id).token
    kill_orchestrator(crew)
    crew.let_go("g")
    done = crew.done(id)[0]
    assert (done.attempts, done.deaths, done.token) == (1, 0, token)
    eventually(lambda: not is_alive(pid))
    certificate = eventually(lambda: crew.app.workers.certificate(done.worker_id or ""))
    assert certificate is not None and (certificate.reason, certificate.exit_code) == ("exited", 82)
    eventually(lambda: crew.processes() == [])


def test_a_new_orchestrator_adopts_the_living_releases_what_the_dead_held_and_steals_nothing(crew: Crew) -> None:
    """Fault 21: the slot of a living orphan stays its own until it has left."""
    crew.start("tag=2")
    id, dead = crew.add("hold", name="h"), crew.add("hold", name="i")
    busy, killed = eventually(lambda: crew.held_by("h")), eventually(lambda: crew.held_by("i"))
    token = crew.app.jobs.get(id).token
    os.kill(crew.pid, signal.SIGSTOP)
    os.kill(killed, signal.SIGKILL)
    kill_orchestrator(crew)
    crew.start("tag=2")
    eventually(lambda: crew.held_by("i") not in (0, killed))
    assert crew.app.jobs.get(id).token == token, "nothing is stolen from the living"
    assert is_alive(busy) and len(children(crew.pid)) == 1
    crew.let_go("h")
    crew.let_go("i")
    done = crew.done(id, dead)
    assert [(job.attempts, job.deaths) for job in done] == [(1, 0), (2, 1)]
    eventually(lambda: not is_alive(busy) and crew.up(2) and len(children(crew.pid)) == 2)


def test_a_new_orchestrator_has_taken_over_and_works_within_a_second(crew: Crew) -> None:
    """Fault 21: on an idle machine; here with room for a busy one. No lease is waited for, which would be 15 s."""
    crew.start("tag=2")
    eventually(lambda: crew.up(2))
    workers = children(crew.pid)
    kill_orchestrator(crew)
    id = crew.add("tag", n=1)
    began = time.monotonic()
    crew.start("tag=2")
    crew.done(id)
    assert time.monotonic() - began < 10
    eventually(lambda: not any(map(is_alive, workers)))
    eventually(lambda: crew.up(2) and len(children(crew.pid)) == 2)
    assert [worker.status for worker in crew.app.workers.list()] == ["idle"] * 2, "the idle of before are not counted"
    assert sum(slot.history.lifetime for slot in crew.app.store.slots.all()) == 0


def test_an_adopted_orphan_that_is_killed_gives_its_job_back_and_its_slot_is_filled(crew: Crew) -> None:
    """Fault 21."""
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    kill_orchestrator(crew)
    crew.start("tag=1")
    eventually(lambda: crew.said("works on alone"))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: crew.held_by("a") != pid)
    crew.let_go("a")
    done = crew.done(id)[0]
    assert (done.attempts, done.deaths) == (2, 1)
    (certificate,) = crew.deaths()
    assert (certificate.reason, certificate.job) == ("lost", id)


def test_an_adopted_orphan_that_is_killed_with_its_helper_gives_its_job_back_all_the_same(crew: Crew) -> None:
    """Fault 21: nobody is left to tell of it but the orchestrator that watches it."""
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    kill_orchestrator(crew)
    crew.start("tag=1")
    eventually(lambda: crew.said("works on alone"))
    mark = f"ROTA_WORKER_PID={pid}".encode()
    (helper,) = eventually(lambda: [each for each in crew.processes() if mark in told(each)])
    for number, each in ((signal.SIGSTOP, pid), (signal.SIGKILL, helper), (signal.SIGKILL, pid)):
        os.kill(each, number)
    eventually(lambda: crew.held_by("a") != pid)
    (certificate,) = crew.deaths()
    assert (certificate.reason, certificate.job) == ("lost", id)
    assert certificate.text == f"process {pid} ended after its orchestrator was gone"
    crew.let_go("a")
    assert crew.done(id)[0].attempts == 2


def test_the_unstarted_jobs_of_an_orphan_go_to_the_new_crew_unspent(crew: Crew) -> None:
    """Fault 21: a worker with a window. Its jobs stand still behind a stopped process until it is killed."""
    warm = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(200))]
    crew.start("tag=1")
    crew.done(*warm)
    held = crew.app.enqueue_many([crew.new("hold", name="b"), *(crew.new("tag", n=1000 + n) for n in range(20))])
    pid = eventually(lambda: crew.held_by("b"))
    for stopped in (crew.pid, pid):
        os.kill(stopped, signal.SIGSTOP)
    waiting = [job for job in crew.app.jobs.list("active") if job.kind == "tag"]
    kill_orchestrator(crew)
    crew.start("tag=2")
    eventually(lambda: crew.said("works on alone"))
    os.kill(pid, signal.SIGKILL)
    crew.let_go("b")
    ended = crew.done(*(job.id for job in held))
    assert [(job.attempts, job.deaths) for job in ended] == [(2, 1)] + [(1, 0)] * 20
    assert waiting, "there was a window"
    assert sorted(int(line) for line in crew.ledger() if line.isdigit()) == [*range(200), *range(1000, 1020)]


def test_a_stop_waits_for_an_orphan_that_still_works(crew: Crew) -> None:
    """Fault 21."""
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    kill_orchestrator(crew)
    crew.start("tag=1")
    eventually(lambda: crew.said("works on alone"))
    os.kill(crew.pid, signal.SIGTERM)
    eventually(lambda: crew.said("stopping:"))
    assert is_alive(pid)
    crew.let_go("a")
    assert crew.wait() == 0
    done = crew.app.jobs.get(id)
    assert (done.status, done.attempts, done.result) == ("done", 1, pid)
    assert crew.processes() == []
    assert crew.app.jobs.list("active") == []


def test_a_stop_whose_patience_ends_ends_the_orphan_and_its_job_goes_back_unspent(crew: Crew) -> None:
    """Fault 21."""
    crew.env["ROTA_SHUTDOWN_TIMEOUT"] = "100ms"
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    kill_orchestrator(crew)
    crew.start("tag=1")
    eventually(lambda: crew.said("works on alone"))
    assert crew.stop() == 0
    assert not is_alive(pid)
    assert crew.processes() == []
    job = crew.app.jobs.get(id)
    assert (job.status, job.attempts, job.deaths) == ("ready", 0, 0)


def test_two_takeovers_in_a_row_lose_nothing_and_start_nothing_twice(crew: Crew) -> None:
    """Fault 21."""
    crew.start("tag=2")
    ids = [crew.add("hold", name=name) for name in "ab"]
    first, killed = eventually(lambda: crew.held_by("a")), eventually(lambda: crew.held_by("b"))
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: crew.held_by("b") != killed)
    for _ in range(2):
        kill_orchestrator(crew)
        crew.start("tag=2")
    second = crew.held_by("b")
    eventually(lambda: len(crew.said("works on alone")) >= 2)
    assert is_alive(first) and is_alive(second)
    for name in "ab":
        crew.let_go(name)
    done = crew.done(*ids)
    assert [(job.attempts, job.deaths, job.result) for job in done] == [(1, 0, first), (2, 1, second)]
    eventually(lambda: crew.up(2) and len(children(crew.pid)) == 2)
    assert crew.stop() == 0
    eventually(lambda: crew.processes() == [])


def test_a_second_orchestrator_is_refused_and_names_the_first(crew: Crew) -> None:
    """Fault 22."""
    crew.start()
    eventually(lambda: crew.up(2))
    told = crew.call("orchestrator", "start", "--app", "shop:app", code=4)
    assert f"is running already, pid {crew.pid}" in told
    assert json.loads(crew.call("orchestrator", "status", "--json"))["pid"] == crew.pid
