"""A process that has only the number of one of ours is another: nobody signals it, whoever wrote the number down."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from rota.process.host import process_start
from tests.support.crews import Crew, is_alive
from tests.support.eventually import eventually
from tests.support.hosts import UNSHARE
from tests.support.shell import environment
from tests.support.stores import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.parametrize("same", [True, False], ids=["itself", "another"])

# In a process namespace of its own a number is given away again as soon as one wants: it is the next after the last.
REUSED = """
import os, signal, subprocess, sys
from rota.orchestrator.event_loop import EventLoop
from rota.process.watch import Watch
from rota.store.workers.crews import Process
from rota.process.host import process_start
from rota.process.watch import Parent


def begin():
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


def end(process):
    process.kill()
    process.communicate()


def begin_as(pid, start):
    while True:
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(pid - 1))
        process = begin()
        assert process.pid == pid
        if process_start(pid) != start:
            return process
        end(process)


def answers(process):
    try:
        process.stdin.write(b"?\\n")
        process.stdin.flush()
    except BrokenPipeError:
        return False
    return process.stdout.readline() == b"?\\n"


how, same = sys.argv[1], sys.argv[2] == "True"
process = begin()
pid, start = process.pid, process_start(process.pid)
if how == "orphan":
    watch = Watch(EventLoop(), lambda ended: None)
    watch.add([Process("worker", pid, start)])
    deed = lambda: watch.signal("worker", signal.SIGKILL)
else:
    deed = Parent(pid).end_session
if not same:
    end(process)
    process = begin_as(pid, start)
deed()
print("lives" if answers(process) else "ended")
end(process)
"""


@contextmanager
def innocent(worker: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a session, as a worker does, and has nothing to do with rota, unless it says so."""
    env = environment(**({"ROTA_WORKER_ID": worker} if worker else {}))
    with subprocess.Popen(["sleep", "1000"], env=env, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.end()


def write_down(crew: Crew, worker: str, pid: int, start: int) -> None:
    """Let the store say that this is the worker's process."""
    text = "UPDATE worker SET pid = :pid, pid_start = :start WHERE id = :worker RETURNING id"
    assert rows(crew.app.store, text, pid=pid, start=start, worker=worker) == [(worker,)]


@pytest.mark.parametrize("how", ["orphan", "parent"])
def test_one_that_got_the_number_of_a_process_that_is_gone_is_not_ended_for_it(how: str, same: bool) -> None:
    """The number is really given away: to an orphan's successor, and to that of a helper's worker."""
    root = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
    words = [*root, *UNSHARE, sys.executable, "-c", REUSED, how, str(same)]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert answer.stdout == ("ended\n" if same else "lives\n"), answer.stderr


def test_a_takeover_ends_no_process_that_only_has_the_number_of_an_orphan(crew: Crew, same: bool) -> None:
    crew.start("tag=1")
    crew.add("hold", name="x")
    eventually(lambda: crew.held_by("x"))
    (worker,) = crew.app.workers.list()
    os.kill(crew.pid, 9)
    crew.wait()
    with innocent(worker.id if same else None) as process:
        start = process_start(process.pid)
        assert start is not None
        write_down(crew, worker.id, process.pid, start if same else start - 1)
        crew.start("tag=1")
        eventually(lambda: crew.facts("orchestrator", "taken over"))
        eventually(lambda: crew.up(1) or same)
        crew.call("orchestrator", "stop", "--now")
        crew.wait()
        assert is_alive(process.pid) is not same


def test_a_process_that_only_has_the_number_that_a_worker_gave_is_not_watched_for_it(crew: Crew, same: bool) -> None:
    with innocent() as process:
        start = process_start(process.pid)
        assert start is not None
        worker = crew.app.workers.register("loop", pid=process.pid)
        write_down(crew, worker.id, process.pid, start if same else start - 1)
        crew.start("tag=1")
        if same:
            crew.done(crew.add("tag", n=1))
            assert crew.app.workers.get(worker.id).status != "dead"
        else:
            eventually(lambda: crew.app.workers.get(worker.id).status == "dead")
        crew.stop()
        assert is_alive(process.pid), "it is never signalled"


def test_stop_signals_none_but_the_process_that_took_the_place(crew: Crew, same: bool) -> None:
    with innocent() as process, open(f"{crew.app.store.database.url}.orchestrator", "w+") as place:
        start = process_start(process.pid)
        assert start is not None
        place.write(f"{process.pid} {start if same else start - 1}\n")
        place.flush()
        fcntl.flock(place, fcntl.LOCK_EX)
        said = crew.call("orchestrator", "stop", code=0 if same else 6)
        assert is_alive(process.pid) is not same
        assert same or f"process {process.pid} is not the orchestrator" in said
