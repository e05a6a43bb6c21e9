"""Workers and programs that stand still: suspected, told, replaced, and harmless when they come back."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.crews import children, is_alive, kill, states
from tests.support.eventually import eventually
from tests.support.processes import line, python
from tests.support.struck import strike, struck_by

if TYPE_CHECKING:
    from tests.support.crews import Crew

QUICK = {"ROTA_FRAME_INTERVAL": "50ms", "ROTA_SILENT_INTERVAL": "200ms"}
BRISK = {"ROTA_FRAME_INTERVAL": "200ms", "ROTA_SILENT_INTERVAL": "1s"}
STANDING = '''
@app.task(queue="tag")
def told(name: str, ctx) -> str:
    """Run until let go, and note when the claim is lost."""
    note(f"hold {name} {os.getpid()}")
    while not (here / f"go-{name}").exists():
        if ctx.lost:
            note(f"lost {name} {os.getpid()}")
            time.sleep(600)
        time.sleep(0.005)
    note(f"through {name} {os.getpid()}")
    return f"{os.getpid()}"


@app.task(queue="tag")
def stand_still(name: str) -> None:
    """Stop while holding the store's write lock, the first time."""
    note(f"hold {name} {os.getpid()}")
    if not (here / "stood").exists():
        (here / "stood").touch()
        with app.store.write():
            os.kill(os.getpid(), signal.SIGSTOP)


@app.setup(queue="slow")
def never_ends() -> None:
    note("import")
    while True:
        time.sleep(1)
'''
RECOVERING = '''
@app.task(queue="tag")
def stand(name: str, seconds: float, ctx) -> None:
    """Ask for time and say nothing until the test lets it."""
    note(f"hold {name} {os.getpid()}")
    with ctx.recovering(seconds):
        os.kill(os.getpid(), signal.SIGSTOP)


@app.task(queue="tag")
def never_well(name: str, ctx) -> None:
    """Ask for a second, and again, and again."""
    note(f"hold {name} {os.getpid()}")
    with ctx.recovering(1):
        while True:
            with ctx.recovering(1):
                time.sleep(0.1)
'''
STRANGER = """
store = open_store(sys.argv[1], Settings())
with store.write():
    print("locked", flush=True)
    sys.stdin.readline()
print("let go", flush=True)
"""


def test_a_worker_that_is_stopped_while_idle_is_killed_and_replaced(crew: Crew) -> None:
    """Fault 5."""
    crew.env |= QUICK
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    (pid,) = children(crew.pid)
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: not is_alive(pid))
    id = crew.add("tag", n=1)
    crew.done(id)
    (certificate,) = crew.deaths()
    assert (certificate.reason, certificate.signal, certificate.sent_by) == ("heartbeat_timeout", 9, "orchestrator")
    assert certificate.job is None
    assert crew.app.store.slots.all()[0].history.lifetime == 1


def test_a_busy_worker_that_is_stopped_has_no_excuse_either(crew: Crew) -> None:
    """Fault 5, with a job in hand: silence would be borne for two minutes, but a stopped process is seen."""
    crew.env |= QUICK
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: crew.held_by("a") != pid)
    crew.let_go("a")
    done = crew.done(id)[0]
    assert (done.attempts, done.deaths) == (2, 1)
    assert [death.reason for death in crew.deaths()] == ["heartbeat_timeout"]


@pytest.mark.both_stores
def test_a_crew_that_stood_still_past_its_lease_changes_nothing_is_told_and_begins_anew(crew: Crew) -> None:
    """Fault 6: another crew takes its jobs while it is stopped; what it has to say of them waits when it wakes."""
    crew.teach(STANDING)
    crew.shorten_leases(5)
    crew.start("tag=2")
    first, second = crew.add("told", name="a"), crew.add("told", name="b")
    stopped = [eventually(lambda name=name: crew.held_by(name)) for name in "ab"]  # type: ignore[misc]
    beside = crew.start_beside(2)
    eventually(lambda: crew.up(4))
    for pid in (crew.pid, *stopped):
        os.kill(pid, signal.SIGSTOP)
    took = [
        eventually(lambda name=name, pid=pid: crew.held_by(name) not in (pid, 0) and crew.held_by(name))  # type: ignore[misc]
        for name, pid in zip("ab", stopped, strict=True)
    ]
    tokens = [crew.app.jobs.get(id).token for id in (first, second)]
    crew.let_go("a")
    settled = crew.done(first)[0]
    assert settled.result == str(took[0])
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: f"through a {stopped[0]}" in crew.ledger())
    os.kill(crew.pid, signal.SIGCONT)
    eventually(lambda: f"lost b {stopped[1]}" in crew.ledger())
    eventually(lambda: not any(map(is_alive, stopped)))
    eventually(lambda: len(children(crew.pid)) == 2 and crew.up(4))
    assert crew.said("the crew begins anew")
    eventually(lambda: crew.said("its outcome was refused"))
    assert crew.app.jobs.get(first) == settled, "what it said of the first changed nothing"
    assert [crew.app.jobs.get(id).token for id in (first, second)] == tokens, "nothing was taken back"
    crew.let_go("b")
    assert crew.done(second)[0].result == str(took[1])
    assert [(job.attempts, job.deaths) for job in map(crew.app.jobs.get, (first, second))] == [(2, 1)] * 2
    assert [[run.verb for run in crew.app.claims.runs(id)] for id in (first, second)] == [["die", "finish"]] * 2
    beside.terminate()
    assert beside.wait(60) == 0
    crew.done(crew.add("tag", n=1))
    eventually(lambda: len(children(crew.pid)) == 2 and crew.up(2))
    assert crew.stop() == 0
    assert crew.processes() == []


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)  # a server ends such a transaction itself
def test_a_worker_that_is_stopped_while_it_keeps_the_store_locked_is_killed(crew: Crew) -> None:
    """Fault 7: a child of ours."""
    crew.teach(STANDING)
    crew.start("tag=2")
    id = crew.add("stand_still", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    done = crew.done(id)[0]
    assert (done.attempts, done.deaths) == (2, 1)
    assert not is_alive(pid)
    assert crew.said("killing it: it is stopped while it keeps the store locked")


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)  # a server ends such a transaction itself
def test_a_stranger_that_is_stopped_while_it_keeps_the_store_locked_is_named_and_supervision_goes_on(
    crew: Crew,
) -> None:
    """Fault 7: a program that is not ours is let be, and nobody sees an error when it ends."""
    crew.start("tag=2")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    with python(STRANGER, crew.app.store.database.path) as stranger:
        assert line(stranger) == "locked"
        os.kill(stranger.pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: crew.said(f"process {stranger.pid} "))
        eventually(lambda: crew.said("ended by signal 9"))
        assert is_alive(stranger.pid)
        assert len(children(crew.pid)) == 1, "the death was seen though the store could not be told"
        os.kill(stranger.pid, signal.SIGCONT)
        eventually(lambda: crew.said(f"waiting for the store, whose write lock process {stranger.pid} "))
        kill(stranger.pid, signal.SIGKILL)
    eventually(lambda: crew.held_by("a") != pid)
    crew.let_go("a")
    done = crew.done(id)[0]
    assert (done.attempts, done.deaths) == (2, 1)
    assert crew.stop() == 0
    assert not crew.said("rror"), "nobody saw one"


@pytest.mark.parametrize("where", ["import", "setup"])
def test_a_start_that_never_ends_is_cut_off_and_counted(crew: Crew, where: str) -> None:
    """Fault 18."""
    crew.env |= {"ROTA_STARTUP_TIMEOUT": "1s", "ROTA_RESTART_LIMIT": "1"}
    crew.teach(STANDING if where == "setup" else "note('import')\nwhile True:\n    time.sleep(1)\n")
    crew.start("slow=1")
    eventually(lambda: crew.slot(0) == "failed")
    (slot,) = crew.app.store.slots.all()
    assert slot.history.failure_reason == "restarted 1 times within 300 s"
    assert slot.history.lifetime == 1 and len(slot.history.restarts) == 1
    assert [death.reason for death in crew.deaths()] == ["startup_timeout"] * 2
    assert crew.ledger() == ["import"] * 2
    assert crew.processes() == []


def test_an_orchestrator_that_stood_still_while_it_was_at_work_suspects_itself_too(crew: Crew) -> None:
    """It is stopped not while it waits, but between what it heard and its look at who is silent."""
    crew.env |= BRISK
    struck = strike(crew, "rota.crew.reaped", signal.SIGSTOP, 1, "orchestrator")
    crew.start("tag=2")
    id = crew.add("hold", name="a")
    busy = eventually(lambda: crew.held_by("a") and crew.up(2) and crew.held_by("a"))
    (idle,) = [pid for pid in children(crew.pid) if pid != busy]
    os.kill(busy, signal.SIGKILL)
    frozen, since = struck_by(struck), crew.app.store.now()
    eventually(lambda: crew.app.store.now() > since + 7_000_000)
    os.kill(frozen, signal.SIGCONT)
    eventually(lambda: crew.said("stood still for"))
    crew.let_go("a")
    crew.done(id)
    assert idle in children(crew.pid)
    (certificate,) = crew.deaths()
    assert certificate.signal == signal.SIGKILL and certificate.sent_by != "orchestrator"


def test_an_orchestrator_that_stood_still_suspects_itself_first_and_nobody_dies(crew: Crew) -> None:
    """It alone is stopped, for longer than three silent intervals and than the time-out of the job in hand."""
    crew.env |= BRISK
    crew.start("tag=2")
    id = crew.app.enqueue(crew.new("hold", name="a").replace(timeout=6_000_000)).id
    eventually(lambda: crew.held_by("a") and crew.up(2))
    workers = children(crew.pid)
    since = crew.app.store.now()
    os.kill(crew.pid, signal.SIGSTOP)
    eventually(lambda: crew.app.store.now() > since + 7_000_000)
    os.kill(crew.pid, signal.SIGCONT)
    eventually(lambda: crew.said("stood still for"))
    crew.done(crew.add("tag", n=1))
    assert children(crew.pid) == workers
    crew.let_go("a")
    assert crew.done(id)[0].attempts == 1
    assert (crew.deaths(), crew.said("killing it")) == ([], [])


@pytest.mark.both_stores
def test_after_a_host_slept_nobody_dies_of_the_silence(crew: Crew) -> None:
    """Everyone is stopped at once, and none of what the workers would have said is there when they wake."""
    crew.env |= BRISK
    crew.start("tag=2")
    id = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a") and crew.up(2))
    workers = children(crew.pid)
    since = crew.app.store.now()
    for pid in (*workers, crew.pid):
        os.kill(pid, signal.SIGSTOP)
    eventually(lambda: crew.app.store.now() > since + 5_000_000)
    for pid in (crew.pid, *workers):
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: crew.said("stood still for"))
    crew.done(crew.add("tag", n=1))
    assert children(crew.pid) == workers
    crew.let_go("a")
    assert crew.done(id)[0].attempts == 1
    assert (crew.deaths(), crew.said("killing it")) == ([], [])


def test_a_worker_that_asked_for_time_to_recover_may_stand_still_meanwhile(crew: Crew) -> None:
    """Another, idle and as silent, is ended all the while."""
    crew.env |= QUICK
    crew.teach(RECOVERING)
    crew.start("tag=2")
    eventually(lambda: crew.up(2))
    both = children(crew.pid)
    id = crew.add("stand", name="a", seconds=60)
    pid = eventually(lambda: crew.held_by("a"))
    eventually(lambda: states(pid) == ["T"] * len(states(pid)))
    (other,) = set(both) - {pid}
    os.kill(other, signal.SIGSTOP)
    eventually(lambda: not is_alive(other))
    assert [slot.health for slot in crew.app.store.slots.all() if slot.health == "recovering"]
    since = crew.app.store.now()
    eventually(lambda: crew.app.store.now() > since + 1_500_000)
    assert is_alive(pid)
    os.kill(pid, signal.SIGCONT)
    assert crew.done(id)[0].attempts == 1
    assert [death.reason for death in crew.deaths()] == ["heartbeat_timeout"]


def test_a_worker_that_recovers_for_longer_than_it_asked_for_dies_of_that(crew: Crew) -> None:
    """The least that is granted is five seconds; asking again and again moves nothing."""
    crew.env |= QUICK
    crew.teach(RECOVERING)
    crew.start("tag=1")
    id = crew.app.enqueue(crew.new("never_well", name="a").replace(max_attempts=1)).id
    pid = eventually(lambda: crew.held_by("a"))
    (failed,) = crew.app.jobs.wait([id], "final", 60_000_000)
    (certificate,) = eventually(crew.deaths)
    assert (certificate.reason, certificate.signal, certificate.sent_by) == ("recovery_timeout", 9, "orchestrator")
    assert (certificate.job, failed.status, failed.deaths) == (id, "failed", 1)
    assert not is_alive(pid)
    (run,) = crew.app.claims.runs(id)
    assert run.ended_at - run.claimed_at >= 5_000_000
