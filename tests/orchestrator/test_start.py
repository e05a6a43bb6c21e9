"""How an orchestrator is started, steered and ended from the command line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rota.core.death import EXIT_SETUP_FAILED
from rota.core.times import SECOND
from tests.support.crews import is_alive
from tests.support.eventually import eventually
from tests.support.processes import stop_between_writes
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from tests.support.crews import Crew


DAEMON = ("orchestrator", "start", "--app", "shop:app", "--pool", "tag=1", "--no-http", "--daemon")


def test_a_daemon_returns_once_its_first_worker_is_up_and_works_until_it_is_stopped(crew: Crew) -> None:
    started = json.loads(crew.call(*DAEMON, "--json"))
    assert crew.slot(0) == "up" or eventually(lambda: crew.slot(0) == "up")
    id = crew.add("tag", n=1)
    crew.app.jobs.wait([id], "done", 60_000_000)
    assert "is up" in Path(started["log"]).read_text()
    assert f"orchestrator {started['pid']} stopped" in crew.call("orchestrator", "stop")
    assert not is_alive(started["pid"])
    assert crew.slot(0) == "empty"


def test_a_daemon_whose_workers_do_not_come_up_says_why_and_does_not_stay(crew: Crew) -> None:
    (crew.folder / "shop.py").write_text("raise SystemExit('no such model')\n")
    told = crew.call(*DAEMON, code=1)
    assert "no worker came up" in told and "no such model" in told and "orchestrator.log" in told
    assert crew.call("orchestrator", "status", code=6).startswith("orchestrator stopped")


def test_a_second_daemon_is_refused_and_names_the_first(crew: Crew) -> None:
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    assert f"is running already, pid {crew.pid}" in crew.call(*DAEMON, code=4)


def test_a_second_daemon_is_refused_under_another_name_of_the_database_too(crew: Crew) -> None:
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    (crew.folder / "other").symlink_to(crew.folder / ".rota")
    (crew.folder / "other.db").symlink_to(crew.folder / "other" / "rota.db")
    for name in ("other/rota.db", "other.db"):
        told = crew.call(*DAEMON, "--db", str(crew.folder / name), code=4)
        assert f"is running already, pid {crew.pid}" in told
    assert crew.up(1)


def test_workers_beside_the_crew_have_slots_of_their_own(crew: Crew) -> None:
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    beside = crew.start_beside(2)
    try:
        eventually(lambda: crew.up(3))
        assert {slot.name: slot.crew for slot in crew.app.store.slots.all()} == {
            "worker:tag:0": "main",
            "worker:tag:1": "beside",
            "worker:tag:2": "beside",
        }
        assert "named beside is running already" in crew.call(
            "worker", "start", "--app", "shop:app", "--name", "beside", code=4
        )
        crew.call("scale", "tag=1", "--crew", "beside")
        eventually(lambda: crew.up(2))
        beside.send_signal(signal.SIGTERM)
        assert beside.wait(60) == 0
        eventually(lambda: crew.up(1))
    finally:
        beside.kill()
        beside.wait()


def test_draining_finishes_the_job_in_hand_however_long_and_takes_no_other(crew: Crew) -> None:
    crew.env["ROTA_SHUTDOWN_TIMEOUT"] = "100ms"
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a"))
    assert "finishes what it holds" in crew.call("drain")
    eventually(lambda: "draining" in crew.log.read_text())
    began = crew.app.store.now()
    late = crew.add("tag", n=1)
    refused = crew.call("worker", "register", "--name", "late", code=6)
    assert "is stopping" in refused
    waiter = subprocess.Popen(
        [ROTA, "orchestrator", "stop", "--graceful"], cwd=crew.folder, env=environment(**crew.env)
    )
    eventually(lambda: len(crew.facts("orchestrator", "drain")) == 2)
    eventually(lambda: crew.app.store.now() > began + SECOND)  # ten times what a stop would wait for
    crew.let_go("a")
    assert crew.wait() == 0
    assert waiter.wait(60) == 0
    assert (crew.app.jobs.get(id).status, crew.app.jobs.get(late).status) == ("done", "ready")
    assert "no orchestrator of crew main" in crew.call("drain", code=6)


def test_a_worker_that_finishes_its_last_job_is_heard_all_the_while(crew: Crew) -> None:
    """Otherwise it would be ended after two minutes, as one that is silent with a job in hand."""
    crew.env |= {"ROTA_FRAME_INTERVAL": "50ms", "ROTA_SILENT_INTERVAL": "1500ms", "ROTA_HEALTH_HISTORY": "500ms"}
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a"))
    crew.call("drain")

    def felt() -> list[str]:
        return [each["health"] for each in crew.facts("slot", "snapshot") if each["status"] == "stopping"]

    eventually(lambda: len(felt()) >= 4)  # a second apart, so that silence since the drain would show by now
    assert felt()[3] == "healthy"
    crew.let_go("a")
    assert crew.wait() == 0
    assert crew.app.jobs.get(id).status == "done"


def test_a_job_longer_than_the_time_to_finish_goes_back_unspent(crew: Crew) -> None:
    crew.env["ROTA_SHUTDOWN_TIMEOUT"] = "100ms"
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    assert crew.stop() == 0
    job = crew.app.jobs.get(id)
    assert (job.status, job.attempts, job.deaths) == ("ready", 0, 0)
    assert not is_alive(pid)


@pytest.mark.both_stores
def test_pause_is_answered_and_a_silent_orchestrator_is_named(crew: Crew) -> None:
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    assert crew.call("pause", "tag") == "queue tag paused\n"
    (live,) = crew.app.store.orchestrators.live()
    assert live.acknowledged_directive == crew.app.store.orchestrators.last_directive(), "it returned before the answer"
    stop_between_writes(crew.pid, crew.app.store)
    try:
        told = crew.call("pause", code=6)
    finally:
        os.kill(crew.pid, signal.SIGCONT)
    assert f"orchestrator {crew.pid} on {os.uname().nodename} did not answer within 2s" in told
    crew.call("resume")
    id = crew.add("tag", n=1)
    crew.app.jobs.wait([id], "done", 60_000_000)


def test_a_slot_says_why_it_is_as_it_is(crew: Crew) -> None:
    assert "there is no slot worker:tag:0" in crew.call("why", "worker:tag:0", code=3)
    crew.start("tag=2")
    eventually(lambda: crew.up(2))
    assert "waits for a job" in crew.call("why", "worker:tag:0")
    id = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a"))
    assert any(f"runs job {id}" in crew.call("why", f"worker:tag:{n}") for n in (0, 1))
    crew.let_go("a")
    crew.app.jobs.wait([id], "done", 60_000_000)
    crew.call("pause", "tag")
    assert "is paused" in json.loads(crew.call("why", "worker:tag:0", "--json"))["why"]
    crew.call("scale", "tag=1")
    assert "scaled down" in crew.call("why", "worker:tag:1")
    assert crew.stop() == 0
    assert "no orchestrator of crew main is running" in crew.call("why", "worker:tag:0")


def test_log_lines_carry_slot_worker_and_run_as_text_and_as_json(crew: Crew) -> None:
    crew.start("tag=1")
    id = crew.add("say", text="hello \x1b[31m there")
    run = eventually(lambda: crew.app.claims.runs(id))[0]
    assert crew.stop() == 0
    line = next(line for line in crew.log.read_text().splitlines() if "hello" in line)
    assert line.split()[1:4] == ["worker:tag:0", run.worker_id, run.id]
    assert "\x1b" not in line
    crew.log.unlink()
    crew.start("tag=1", "--log-format", "json")
    again = crew.add("say", text="goodbye")
    crew.app.jobs.wait([again], "done", 60_000_000)
    assert crew.stop() == 0
    lines = [json.loads(line) for line in crew.log.read_text().splitlines()]
    (told,) = [line for line in lines if line["text"] == "goodbye"]
    assert (told["slot"], told["run"]) == ("worker:tag:0", crew.app.claims.runs(again)[0].id)


def test_systemd_hears_that_it_is_ready_alive_and_stopping(crew: Crew) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(crew.folder / "notify"))
        listener.settimeout(60)
        crew.env |= {"NOTIFY_SOCKET": str(crew.folder / "notify"), "WATCHDOG_USEC": "200000"}
        crew.start("tag=1")
        heard = ""
        while "READY=1" not in heard or heard.count("WATCHDOG=1") < 3:
            heard += listener.recv(4096).decode() + "\n"
        assert crew.stop() == 0
        while "STOPPING=1" not in heard:
            heard += listener.recv(4096).decode() + "\n"


def test_the_health_of_every_slot_is_kept_when_its_history_is_wanted(crew: Crew) -> None:
    crew.env["ROTA_HEALTH_HISTORY"] = "300ms"
    crew.start("tag=1")

    last = eventually(lambda: [each for each in crew.facts("slot", "snapshot") if each.get("health") == "healthy"])[-1]
    assert (last["status"], last["job"]) == ("up", None)


@pytest.mark.both_stores
def test_a_job_that_is_due_in_a_moment_is_not_left_to_the_next_poll(crew: Crew) -> None:
    crew.env["ROTA_POLL_INTERVAL"] = "10m"
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    job = crew.app.enqueue(crew.new("tag", n=1).replace(at=time.time_ns() // 1000 + 300_000))
    assert job.wait(60).status == "done"
    crew.app.queues.set("tag", rate="5/s")
    ids = [crew.add("tag", n=n) for n in range(4)]
    crew.app.jobs.wait(ids, "done", 60_000_000)


@pytest.mark.both_stores
def test_a_registered_worker_whose_process_ends_is_dead_at_once(crew: Crew) -> None:
    crew.start("tag=1")
    with subprocess.Popen(["sleep", "600"]) as process:
        worker = crew.app.workers.register("loop", every=600_000_000, pid=process.pid, queue="other")
        id = crew.app.enqueue(crew.new("tag", n=1).replace(queue="other")).id
        crew.app.claims.claim(id, worker.id)
        process.kill()
    eventually(lambda: crew.app.workers.get(worker.id).status == "dead")
    certificate = crew.app.workers.certificate(worker.id)
    assert certificate is not None and certificate.reason == "exited"
    assert crew.app.jobs.get(id).status == "ready"


def test_a_worker_whose_module_is_missing_says_so_in_one_line(crew: Crew) -> None:
    crew.begin("worker", "start", "--app", "nowhere:app", "--queue", "tag")
    eventually(crew.deaths)
    death = crew.deaths()[0]
    assert (death.reason, death.exit_code) == ("setup_failed", EXIT_SETUP_FAILED)
    folder = crew.folder.resolve()
    line = f"there is no module 'nowhere' in {folder}, nor where Python looks: write module:name, such as shop:app"
    assert (death.stderr_tail or "").splitlines() == [line]
    assert line in crew.log.read_text() and "Traceback" not in crew.log.read_text()


def test_a_crew_whose_folder_is_removed_says_so_and_ends_and_the_next_job_is_told_of_a_new_database(crew: Crew) -> None:
    """Nothing has to take its place first: until then nobody could stop the crew, for its lock is gone."""
    crew.start("tag=1")
    crew.done(crew.add("tag", n=1))
    subprocess.run(["rm", "-rf", crew.folder / ".rota"], check=True)  # the crew removes files of its own meanwhile
    assert crew.wait() == 1
    assert crew.said("was removed or replaced while it was open")
    assert not crew.said("answers again") and not crew.said("No such file")
    assert crew.processes() == []
    assert "there is no database here" in crew.call("orchestrator", "status", code=3)
    assert f"made a new database at {crew.folder}" in crew.call("add", "again")
    assert "orchestrator stopped" in crew.call("orchestrator", "status", code=6)
