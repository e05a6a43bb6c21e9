"""Workers and orchestrators of neighbouring versions: the frames of the version before are spoken, no others."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rota.core.frames.codec import PROTOCOL
from tests.support.crews import Crew, is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# In a worker alone, and in the program that it starts when it is left alone: their protocol is another. The number is
# beside the module, not in it: of two modules of one size and one second, Python takes the one it compiled first.
OTHER = """
import pathlib, sys
if any(word.startswith("rota.worker") for word in sys.orig_argv):
    from rota.core.frames import codec
    codec.PROTOCOL = int(pathlib.Path(__file__).with_name("protocol").read_text())
"""


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    made = Crew(tmp_path, ROTA_RESTART_BACKOFF="50ms", ROTA_RESTART_LIMIT="2")
    yield made
    made.end()


def workers_speak(crew: Crew, protocol: int) -> None:
    """Workers that are started from now on are of another version."""
    site = crew.folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(OTHER)
    (site / "protocol").write_text(str(protocol))
    crew.env["PYTHONPATH"] = str(site)


def test_a_worker_of_the_version_before_works_for_an_upgraded_orchestrator(crew: Crew) -> None:
    workers_speak(crew, PROTOCOL - 1)
    crew.start("tag=2")
    eventually(lambda: crew.up(2))
    assert [job.result for job in crew.done(*(crew.add("tag", n=n) for n in range(20)))] == list(range(20))
    assert crew.deaths() == []
    assert crew.stop() == 0


def test_a_worker_of_the_version_before_finishes_its_job_beside_an_upgraded_orchestrator(crew: Crew) -> None:
    workers_speak(crew, PROTOCOL - 1)
    crew.start("tag=1")
    held = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    os.kill(crew.pid, signal.SIGKILL)
    crew.wait()
    workers_speak(crew, PROTOCOL)
    crew.start("tag=2")
    crew.done(crew.add("tag", n=1))
    assert is_alive(pid) and crew.app.jobs.get(held).status == "active"
    crew.let_go("a")
    (job,) = crew.done(held)
    assert (job.result, job.attempts) == (pid, 1)
    eventually(lambda: crew.up(2))
    assert crew.stop() == 0


def test_a_worker_of_a_newer_version_is_refused_by_an_older_orchestrator_and_loses_nothing(
    crew: Crew,
) -> None:
    """Only the version before is spoken: a newer worker is ended at its first word, and its certificate says why."""
    workers_speak(crew, PROTOCOL + 1)
    crew.start("tag=1")
    certificate = eventually(lambda: [each for each in crew.deaths() if each.reason == "invalid_frames"])[0]
    assert certificate.slot == "worker:tag:0"
    eventually(lambda: f"speaks protocol {PROTOCOL + 1}" in crew.log.read_text())
    eventually(lambda: crew.app.store.slots.all()[0].status == "failed")
    job = crew.add("tag", n=1)
    assert crew.app.jobs.get(job).status == "ready", "nothing was given to it"
    workers_speak(crew, PROTOCOL)
    crew.call("reset", "worker:tag:0")
    assert crew.done(job)[0].result == 1
