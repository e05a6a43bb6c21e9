"""Registered workers, in text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.shell import Shell

STORES = ["sqlite", "remote"]


def test_register_makes_a_missing_database_and_prints_the_id(bare: Shell) -> None:
    answer = bare.call("worker", "register", "--name", "night-shift")
    assert answer.stdout.startswith("worker-") and len(answer.stdout) == len("worker-12345678\n")
    assert answer.stderr == f"rota: made a new database at {bare.path}\n"


def test_a_heartbeat_answers_what_to_do(shell: Shell) -> None:
    worker = shell.register()
    assert shell.say("worker", "heartbeat", worker) == "continue"
    assert shell.ask("worker", "heartbeat", worker, "--busy", 5) == {"id": worker, "advice": "continue"}
    shell.say("pause")
    assert shell.say("worker", "heartbeat", worker) == "pause"
    shell.say("resume")
    shell.say("worker", "stop", worker)
    assert shell.ask("worker", "heartbeat", worker)["advice"] == "stop"


def test_a_heartbeat_of_an_unknown_worker_says_register(shell: Shell) -> None:
    answer = shell.call("worker", "heartbeat", "worker-00000000")
    assert (answer.returncode, answer.stdout) == (7, "register\n")
    assert answer.stderr == "rota: worker worker-00000000 is not registered (any more): register again\n"
    assert shell.ask("worker", "heartbeat", "null", code=7) == {"id": "null", "advice": "register"}


def test_deregistering_gives_back_what_the_worker_holds_and_keeps_history(shell: Shell) -> None:
    id, worker, other = shell.add(), shell.register(), shell.register("other")
    shell.say("claim", id, worker)
    assert shell.say("worker", "deregister", worker) == f"{worker} left, 1 job given back"
    assert shell.ask("show", id)["status"] == "ready"
    assert [run["status"] for run in shell.ask("runs", id)] == ["released"]
    assert shell.ask("worker", "deregister", other) == {"id": other, "released": 0}
    assert "not registered" in shell.refuse("worker", "deregister", "worker-00000000", code=7)


def test_list_shows_the_living_and_with_all_the_gone(shell: Shell) -> None:
    assert shell.say("worker", "list").startswith("no workers; one registers with: rota worker register")
    assert shell.ask("worker", "list") == []
    here, gone = shell.register("here", "--queue", "tag"), shell.register("gone")
    shell.say("worker", "deregister", gone)
    head, line = shell.say("worker", "list").splitlines()
    assert head.split() == ["ID", "STATUS", "JOB", "QUEUE", "BEAT", "DONE", "FAILED", "HOST", "NAME"]
    assert line.split()[:3] == [here, "idle", "tag"] and line.endswith("here")
    assert {worker["status"] for worker in shell.ask("worker", "list", "--all")} == {"idle", "stopped"}


def test_status_of_one_is_its_page_with_what_it_holds(shell: Shell) -> None:
    id, worker = shell.add("Tag a.wav"), shell.register("loop", "--pid", 4242)
    shell.say("claim", id, worker)
    page = shell.say("worker", "status", worker)
    assert "busy" in page and "process 4242" in page
    assert page.splitlines()[-1].startswith(f"holds job {id} until 20") and page.endswith(": Tag a.wav")
    assert shell.ask("worker", "status", worker)["current_job"] == id


def test_status_exits_6_for_a_worker_that_is_not_well(shell: Shell) -> None:
    gone = shell.register("gone")
    shell.say("worker", "deregister", gone)
    assert "stopped" in shell.say("worker", "status", gone, code=6)
    assert "there is no worker" in shell.refuse("worker", "status", "worker-00000000", code=3)
    silent = shell.register("silent", "--every", "100ms")
    eventually(lambda: "late" in shell.call("worker", "status", silent).stdout)
    assert shell.ask("worker", "status", silent, code=6)["status"] == "late"


def test_the_dead_leave_a_certificate_and_reconcile_finds_them(shell: Shell) -> None:
    silent = shell.register("silent", "--every", "100ms")
    plan = eventually(lambda: (found := shell.ask("reconcile", "--plan"))["dead_workers_found"] and found)
    assert plan["dead_workers_found"] == 1
    assert shell.say("reconcile", "--plan") == "would mend: 1 dead workers found"
    assert shell.say("reconcile") == "1 dead workers found"
    assert shell.say("reconcile") == "nothing to mend"
    page = shell.say("worker", "status", silent, code=6)
    assert "heartbeat_timeout: no heartbeat for" in page


def test_status_without_an_id_sums_up(shell: Shell) -> None:
    assert shell.say("worker", "status").startswith("no workers;")
    shell.register("a"), shell.register("b")
    assert shell.say("worker", "status") == "2 workers: 2 idle"
    summary = shell.ask("worker", "status")
    assert (summary["workers"], summary["idle"], summary["late"]) == (2, 2, 0)


def test_stop_asks_a_worker_to_leave_and_may_wait_until_it_has(shell: Shell) -> None:
    worker = shell.register()
    assert shell.say("worker", "stop", worker) == f"{worker} is asked to stop: it hears of it with its next beat"
    assert "asked to stop" in shell.say("worker", "status", worker)
    waiting = shell.start("worker", "stop", worker, "--graceful")
    eventually(lambda: shell.say("events").count(f"stop {worker}") == 2)
    assert waiting.poll() is None
    shell.say("worker", "deregister", worker)
    out, _ = waiting.communicate(timeout=60)
    assert (out, waiting.returncode) == (f"{worker} is stopped\n", 0)
    assert "no living worker" in shell.refuse("worker", "stop", worker, code=3)
