"""A stop, whatever the crew is at: with the store in reach nothing is left; without it, what is unsettled is named."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.core.ids import run_id
from rota.core.times import SECOND
from rota.lab.chaos.crew_processes import MARK, Remains, remains
from rota.orchestrator.shutdown import LAST_WORD
from rota.store.postgres.connection import address
from rota.store.postgres.database import PostgresDatabase
from tests.support.crews import children
from tests.support.eventually import eventually
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.workers.crews import Live
    from tests.support.crews import Crew

pytestmark = pytest.mark.both_stores

UNSETTLED = "the store did not answer: the lease will lapse; unsettled: "
SLOW = """
@app.setup(queue="tag")
def never_ends() -> None:
    note("setup")
    while True:
        time.sleep(1)
"""


def busy(crew: Crew) -> None:
    """One job is in hand and ends in time, others are behind it."""
    crew.start("tag=2", http=True)
    eventually(lambda: crew.up(3))
    crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a"))


def idle(crew: Crew) -> None:
    crew.start("tag=2", http=True)
    eventually(lambda: crew.up(3))


def in_backoff(crew: Crew) -> None:
    crew.env["ROTA_RESTART_BACKOFF"] = "1m"
    (crew.folder / "shop.py").write_text("raise SystemExit('no such model')\n")
    crew.start("tag=2", http=True)
    eventually(lambda: [slot.status for slot in crew.app.store.slots.all()] == ["up", "backoff", "backoff"])


def paused(crew: Crew) -> None:
    crew.start("tag=2", http=True)
    eventually(lambda: crew.up(3))
    crew.call("pause", "tag")
    crew.add("tag", n=1)


def half_started(crew: Crew) -> None:
    """No worker is ready, and none will be before its time to finish is over."""
    crew.teach(SLOW)
    crew.start("tag=2", http=True)
    eventually(lambda: len(crew.ledger()) == 2 and crew.up(1))


@pytest.mark.parametrize("at", [busy, idle, in_backoff, paused, half_started], ids=lambda each: each.__name__)
def test_after_a_stop_no_claim_child_socket_file_or_lock_is_left_whatever_the_crew_was_at(
    crew: Crew, at: object
) -> None:
    assert callable(at)
    crew.env |= {MARK: str(crew.folder), "ROTA_HTTP_PORT": "0"}
    crew.env["ROTA_SHUTDOWN_TIMEOUT"] = "1s" if at is half_started else "20s"
    at(crew)
    everyone = [crew.pid, *children(crew.pid)]
    os.kill(crew.pid, signal.SIGTERM)
    eventually(lambda: crew.said("stopping:"))
    crew.let_go("a")
    assert crew.wait() == 0
    assert remains(str(crew.folder), str(crew.folder), ()) == Remains()
    assert not [pid for pid in everyone if os.path.exists(f"/proc/{pid}")], "no zombie either"
    assert crew.processes() == []
    assert crew.app.jobs.list("active") == [] and crew.app.workers.list() == []
    assert live(crew) == []
    assert {slot.status for slot in crew.app.store.slots.all()} == {"empty"}
    assert len(crew.said("stopped")) == 1


@contextmanager
def out_of_reach(crew: Crew) -> Iterator[None]:
    """Nobody else can write to the store meanwhile."""
    database = crew.app.store.database
    if isinstance(database, PostgresDatabase):
        with psycopg.connect(address(database.url).conninfo) as connection:
            connection.execute(f"LOCK TABLE {database.schema}.orchestrator, {database.schema}.job".encode())
            yield
    else:
        with crew.app.store.write():
            yield


def named(crew: Crew) -> list[str]:
    """The runs of which the crew said at its end that they are unsettled."""
    (line,) = crew.said(UNSETTLED)
    return line.partition(UNSETTLED)[2].split(", ")


def run_again(crew: Crew, *jobs: int) -> None:
    """The next crew takes over and does what the one before could not tell of."""
    crew.start("tag=2")
    assert [job.status for job in crew.done(*jobs)] == ["done"] * len(jobs)
    assert crew.stop() == 0


def test_a_stop_whose_store_is_out_of_reach_exits_1_and_names_what_is_unsettled(crew: Crew) -> None:
    crew.start("tag=2")
    jobs = [crew.add("hold", name=name) for name in "ab"]
    eventually(lambda: crew.held_by("a") and crew.held_by("b"))
    runs = [run_id(crew.app.jobs.get(job).token or 0) for job in jobs]
    with out_of_reach(crew):
        os.kill(crew.pid, signal.SIGTERM)
        eventually(lambda: crew.said("stopping:"))
        for name in "ab":
            crew.let_go(name)
        eventually(lambda: len(crew.said("left: exited with code 0")) == 2)
        assert crew.wait() == 1
        assert named(crew) == runs
        assert crew.processes() == []
    assert {crew.app.jobs.get(job).status for job in jobs} == {"active"}, "until the next crew takes over"
    run_again(crew, *jobs)
    assert len(crew.ledger()) == 4


def test_a_second_signal_does_not_wait_for_a_store_that_is_out_of_reach(crew: Crew) -> None:
    crew.start("tag=1")
    job = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    run = run_id(crew.app.jobs.get(job).token or 0)
    with out_of_reach(crew):
        os.kill(crew.pid, signal.SIGTERM)
        eventually(lambda: crew.said("stopping:"))
        os.kill(crew.pid, signal.SIGTERM)
        asked_at = time.monotonic()
        assert crew.wait() == 1
        assert time.monotonic() - asked_at < LAST_WORD / SECOND - 2, "it waited for a second, not for ten"
        assert not os.path.exists(f"/proc/{pid}") and crew.processes() == []
        assert named(crew) == [run]
    crew.let_go("a")
    run_again(crew, job)


def live(crew: Crew) -> list[Live]:
    return crew.app.store.orchestrators.live()


def test_while_a_crew_drains_its_lease_is_renewed_until_the_last_claim_is_settled(crew: Crew) -> None:
    """However long that takes: here longer than a lease."""
    crew.start("tag=1")
    job = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a"))
    words = [ROTA, "orchestrator", "stop", "--graceful"]
    waiter = subprocess.Popen(words, cwd=crew.folder, env=environment(**crew.env))
    (draining,) = eventually(lambda: [each for each in live(crew) if each.status == "stopping"])
    first = draining.lease_expires_at or 0
    eventually(lambda: crew.app.store.now() > first)
    (still,) = live(crew)
    assert (still.id, still.status) == (draining.id, "stopping")
    assert (still.lease_expires_at or 0) > crew.app.store.now()
    crew.app.store.tick()
    assert crew.app.jobs.get(job).status == "active" and crew.processes()
    crew.let_go("a")
    assert crew.wait() == 0
    assert waiter.wait(60) == 0
    assert live(crew) == []
    assert [run.verb for run in crew.app.claims.runs(job)] == ["finish"]
    assert [worker.status for worker in crew.app.workers.list(gone_too=True)] == ["stopped"]
