"""A crew of commands: real orchestrators, real processes, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from rota.core.ids import run_id
from rota.core.job import NewJob
from rota.core.times import SECOND
from tests.support.crews import children, is_alive
from tests.support.eventually import eventually
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.crews import Crew

HOLD = """
echo $$ > pid-$1; sleep 1000 & echo $! > child-$1
trap 'echo polite > ended-$1; exit 1' TERM
while [ ! -e go-$1 ]; do sleep 0.02; done
"""


@pytest.fixture
def hold(crew: Crew) -> Crew:
    """A crew whose command runs until the test lets it go."""
    (crew.folder / "locks.sh").write_text(HOLD)
    crew.begin("worker", "exec", "--queue", "q", "--", "sh", "locks.sh", "{title}")
    return crew


def add(crew: Crew, title: str, **more: object) -> int:
    return crew.app.enqueue(NewJob(title, queue="q").replace(**more)).id


def status(crew: Crew, id: int) -> str:
    return crew.app.jobs.get(id).status


def pids(crew: Crew, name: str) -> list[int]:
    """The command of this name and its child, once both run."""
    paths = [crew.folder / f"{what}-{name}" for what in ("pid", "child")]
    eventually(lambda: all(path.exists() and path.read_text().strip() for path in paths))
    return [int(path.read_text()) for path in paths]


def gone(*found: int) -> bool:
    return not any(is_alive(pid) for pid in found)


def test_every_kind_of_a_queue_runs_the_command_and_nothing_is_left_behind(crew: Crew) -> None:
    crew.begin("worker", "exec", "--queue", "q", "--workers", "2", "--name", "tools", "--", "sh", "-c", "cat", "x")
    ids = [add(crew, f"job {n}", kind=f"kind{n}", payload={"n": n}) for n in range(6)]
    jobs = [crew.app.jobs.wait([id], "done", 60 * SECOND)[0] for id in ids]
    for n, job in enumerate(jobs):
        assert isinstance(job.result, dict)
        told = job.result
        assert (told["id"], told["kind"], told["status"], told["payload"]) == (job.id, f"kind{n}", "active", {"n": n})
        assert (told["worker_id"], told["run_id"]) == (job.worker_id, run_id(job.token or 0))
        assert (told["attempts"], told["children"], told["after"]) == (0, [], [])
    assert {slot.crew for slot in crew.app.store.slots.all()} == {"tools"}
    pid = crew.pid
    assert crew.stop() == 0
    assert children(pid) == []


def test_one_that_ends_with_75_is_tried_later_and_spends_no_attempt(crew: Crew) -> None:
    crew.begin("worker", "exec", "--queue", "q", "--", "sh", "-c", "exit 75")
    id = add(crew, "later", max_attempts=1)
    eventually(lambda: status(crew, id) == "scheduled")
    job = crew.app.jobs.get(id)
    assert job.attempts == 0 and "exit code 75" in (job.note or "")
    (run,) = crew.app.claims.runs(id)
    assert 59 * SECOND < (job.due_at or 0) - run.ended_at < 61 * SECOND


def test_a_killed_worker_takes_its_command_along_before_the_job_runs_again(hold: Crew) -> None:
    id = add(hold, "a")
    found = pids(hold, "a")
    (worker,) = children(hold.pid)
    (hold.folder / "pid-a").unlink()
    os.kill(worker, signal.SIGKILL)
    again = pids(hold, "a")
    assert gone(*found), "the first is gone before the second begins"
    hold.let_go("a")
    assert hold.app.jobs.wait([id], "done", 60 * SECOND)[0].deaths == 1
    eventually(lambda: gone(*again))
    assert hold.stop() == 0


def test_a_cancelled_command_is_asked_to_end_and_its_worker_lives(hold: Crew) -> None:
    id = add(hold, "a")
    found = pids(hold, "a")
    workers = children(hold.pid)
    hold.call("cancel", str(id))
    eventually(lambda: gone(*found))
    assert (hold.folder / "ended-a").read_text() == "polite\n"
    assert status(hold, id) == "cancelled"
    hold.let_go("b")
    after = add(hold, "b")
    hold.app.jobs.wait([after], "done", 60 * SECOND)
    assert children(hold.pid) == workers


def test_a_command_past_its_time_out_fails_with_that_reason_and_its_worker_lives(hold: Crew) -> None:
    id = add(hold, "a", timeout=SECOND, max_attempts=1)
    found = pids(hold, "a")
    workers = children(hold.pid)
    eventually(lambda: status(hold, id) == "failed")
    (run,) = hold.app.claims.runs(id)
    assert (run.reason, run.error, run.attempt) == ("timeout", "ran past its time-out", 1)
    assert (hold.folder / "ended-a").read_text() == "polite\n"
    assert gone(*found)
    assert children(hold.pid) == workers


def test_the_time_out_of_worker_exec_holds_for_jobs_that_have_none(crew: Crew) -> None:
    crew.begin("worker", "exec", "--queue", "q", "--timeout", "1s", "--", "sleep", "1000")
    id = add(crew, "a", max_attempts=1)
    eventually(lambda: status(crew, id) == "failed")
    assert crew.app.claims.runs(id)[0].reason == "timeout"


def test_a_stop_ends_it_when_the_time_to_finish_is_over(crew: Crew) -> None:
    (crew.folder / "locks.sh").write_text(HOLD)
    crew.env["ROTA_SHUTDOWN_TIMEOUT"] = "100ms"
    crew.begin("worker", "exec", "--queue", "q", "--", "sh", "locks.sh", "{title}")
    id = add(crew, "a")
    found = pids(crew, "a")
    assert crew.stop() == 0
    assert (crew.folder / "ended-a").read_text() == "polite\n"
    job = crew.app.jobs.get(id)
    assert (job.status, job.attempts) == ("ready", 0)
    assert gone(*found)


def test_a_stop_waits_for_a_command_that_finishes_in_time(hold: Crew) -> None:
    id = add(hold, "a")
    pids(hold, "a")
    os.kill(hold.pid, signal.SIGTERM)
    eventually(lambda: "stopping" in hold.log.read_text())
    hold.let_go("a")
    assert hold.wait() == 0
    assert status(hold, id) == "done"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ('done $ROTA_JOB_ID --result \'{"by":"me"}\'; exit 0', "done"),
        ("done $ROTA_JOB_ID --token $ROTA_CLAIM_TOKEN; exit 1", "done"),
        ("fail $ROTA_JOB_ID --final --error mine; exit 0", "failed"),
    ],
)
def test_a_command_may_settle_its_own_job(crew: Crew, words: str, wanted: str) -> None:
    crew.begin(
        "worker", "exec", "--queue", "q", "--", "sh", "-c", f"'{ROTA}' {words}".replace("{", "{{").replace("}", "}}")
    )
    first, second = add(crew, "a"), add(crew, "b")
    for id in (first, second):
        eventually(lambda id=id: status(crew, id) == wanted)  # type: ignore[misc]
        assert len(crew.app.claims.runs(id)) == 1
    assert len({slot.worker for slot in crew.app.store.slots.all()}) == 1
    assert crew.stop() == 0
    assert [status(crew, id) for id in (first, second)] == [wanted, wanted]


@pytest.mark.both_stores
def test_a_command_may_renew_and_add_children(crew: Crew) -> None:
    (crew.folder / "w.sh").write_text(
        f"set -e\n'{ROTA}' claim renew $ROTA_JOB_ID\n'{ROTA}' add child --queue other --parent $ROTA_JOB_ID\n"
    )
    crew.begin("worker", "exec", "--queue", "q", "--", "sh", "w.sh")
    id = add(crew, "a")
    eventually(lambda: status(crew, id) == "done")
    out = crew.call("logs", str(id))
    assert f"job {id} is renewed by its orchestrator\n" in out
    assert len(crew.app.jobs.get(id).children) == 1


def test_its_output_can_be_followed_while_it_runs_and_is_pruned_with_it(crew: Crew, tmp_path: Path) -> None:
    script = "echo one; echo oops >&2; while [ ! -e go-a ]; do sleep 0.02; done; echo two"
    crew.begin("worker", "exec", "--queue", "q", "--", "sh", "-c", script)
    id = add(crew, "a")
    (out,) = eventually(lambda: [path for path in tmp_path.rglob("run-00000001.out") if path.stat().st_size])
    assert crew.call("logs", str(id)) == "one\n"
    words = [ROTA, "logs", str(id), "--follow"]
    env = environment(**crew.env)
    with subprocess.Popen(words, cwd=crew.folder, env=env, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "one\n"
        crew.let_go("a")
        assert follower.stdout.read() == "two\n"
        assert follower.wait() == 0
    assert crew.call("logs", str(id), "--stderr") == "oops\n"
    assert out.parent.stat().st_mode & 0o777 == 0o700
    crew.app.store.history.prune(older=0)
    assert list(out.parent.iterdir()) == []


def test_a_declared_command_runs_in_a_crew_beside_functions(crew: Crew) -> None:
    crew.teach("""
@app.command(queue="tag", argv=["sh", "-c", 'echo "[$1]"', "sh", "n{payload.n}"])
def shown(n: int): ...
""")
    crew.start("tag=1")
    ids = [crew.add("shown", n=1), crew.add("tag", n=2), crew.add("shown", n=3)]
    jobs = [crew.app.jobs.wait([id], "done", 60 * SECOND)[0] for id in ids]
    assert [job.result for job in jobs] == [None, 2, None]
    assert crew.call("logs", str(ids[2])) == "[n3]\n"


def test_a_command_that_makes_no_sense_is_refused_at_once(crew: Crew) -> None:
    assert "must be named by the command itself" in crew.call("worker", "exec", "--", "{title}", code=2)
    assert "which is nothing of a job" in crew.call("worker", "exec", "--", "run", "{token}", code=2)
    assert "worker exec needs CMD" in crew.call("worker", "exec", "--queue", "q", code=2)


def test_a_fenced_command_of_a_stopped_orchestrator_ends_by_itself(hold: Crew) -> None:
    hold.call("queue", "set", "q", "--fence", "end")
    add(hold, "a")
    found = pids(hold, "a")
    os.kill(hold.pid, signal.SIGSTOP)
    try:
        eventually(lambda: gone(*found))
    finally:
        os.kill(hold.pid, signal.SIGCONT)
