"""`init`, `events`, `prune`, `migrate`, `doctor`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import apsw

from rota.store.migrate import LATEST
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.shell import Shell


def test_init_makes_a_database_once(bare: Shell) -> None:
    assert bare.say("init") == f"made a new database at {bare.path}"
    assert bare.say("init") == f"there is a database at {bare.path} already"
    assert bare.ask("init") == {"path": str(bare.path), "made": False, "schema": LATEST}
    assert bare.path.stat().st_mode & 0o777 == 0o600
    assert bare.path.parent.stat().st_mode & 0o777 == 0o700


def test_init_makes_one_here_even_below_another(shell: Shell) -> None:
    below = shell.folder / "below"
    below.mkdir()
    shell.folder = below
    assert shell.ask("init") == {"path": str(below / ".rota" / "rota.db"), "made": True, "schema": LATEST}


def test_events_are_one_line_per_fact(shell: Shell) -> None:
    assert shell.say("events") == "nothing happened yet"
    assert shell.ask("events") == []
    id, worker = shell.add("A", "--queue", "tag"), shell.register()
    shell.say("claim", id, worker)
    head, *lines = shell.say("events").splitlines()
    assert head.split() == ["TIME", "ACTOR", "FACT"]
    facts = [line.split(maxsplit=2)[2] for line in lines]
    assert facts[:2] == ["make queue tag", "add job 1 of queue tag: ready"]
    assert facts[2].startswith(f"register {worker} (name loop")
    assert facts[3].startswith("claim job 1 of queue tag: ready -> active")
    assert shell.say("events", "--limit", 1).splitlines()[1:] == [lines[-1]]


def test_events_as_documents_have_a_topic_a_type_and_their_noun(shell: Shell) -> None:
    shell.add("A", "--queue", "tag")
    worker = shell.register()
    shell.say("pause")
    made, added, registered, paused = shell.ask("events")
    assert list(added) == ["id", "topic", "type", "timestamp", "at", "actor", "job"]
    assert (made["topic"], made["type"], made["queue"]["queue_type"]) == ("queue:tag:status", "queue_update", "tag")
    assert (added["topic"], added["type"], added["job"]["id"]) == ("queue:tag:jobs", "job_update", 1)
    assert (registered["topic"], registered["worker"]["id"]) == (f"worker:-:{worker}:status", worker)
    assert (paused["topic"], paused["queue"]["verb"]) == ("queue:status", "pause")
    assert added["at"].startswith("20") and abs(added["timestamp"] / 1000 - shell.path.stat().st_mtime) < 3600


def test_a_fact_of_many_jobs_is_a_document_for_each(shell: Shell) -> None:
    blocker = shell.add()
    for _ in range(3):
        shell.add("B", "--after", blocker)
    shell.say("done", blocker, "--force")
    freed = [
        event["job"]
        for event in shell.ask("events")
        if event["type"] == "job_update" and event["job"]["verb"] == "unblock"
    ]
    assert [(job["id"], job["was"], job["status"]) for job in freed] == [(n, "blocked", "ready") for n in (2, 3, 4)]
    assert "unblock jobs 2, 3, 4 of queue default: blocked -> ready" in shell.say("events")


def test_events_are_chosen_by_topic_and_read_on_from_a_cursor(shell: Shell) -> None:
    shell.add("A", "--queue", "tag"), shell.add("B", "--queue", "scan")
    shell.register()
    assert {event["topic"] for event in shell.ask("events", "--topic", "queue:tag:*")} == {
        "queue:tag:status",
        "queue:tag:jobs",
    }
    assert [event["topic"] for event in shell.ask("events", "--topic", "queue:jobs")] == ["queue:jobs"] * 2
    assert len(shell.ask("events", "--topic", "worker:*:status", "--topic", "queue:scan:jobs")) == 2
    everything = shell.ask("events")
    cursor = everything[0]["id"]
    assert shell.ask("events", "--after", cursor) == [event for event in everything if event["id"] != cursor]
    assert shell.ask("events", "--after", everything[-1]["id"]) == []
    assert "not an event cursor" in shell.refuse("events", "--after", "x", code=2)


def test_events_are_followed_one_document_per_line(shell: Shell) -> None:
    shell.add("Before")
    following = shell.start("events", "--follow", "--json", "--topic", "queue:jobs", "--after", "0")
    try:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["job"]["id"] == 1
        shell.add("While")
        assert json.loads(following.stdout.readline())["job"]["id"] == 2
        following.send_signal(2)
        _, error = following.communicate(timeout=60)
        assert (following.returncode, error) == (130, "")
    finally:
        following.kill()


def test_prune_forgets_what_is_over(shell: Shell) -> None:
    first, second = shell.add(), shell.add()
    shell.say("done", first, "--force")
    assert shell.ask("prune")["jobs"] == 0
    forgotten = eventually(lambda: (gone := shell.ask("prune", "--older", "1ms"))["jobs"] and gone)
    assert forgotten["jobs"] == 1 and forgotten["events"] > 0
    assert [job["id"] for job in shell.ask("list")] == [second]
    shell.say("done", second, "--force")
    assert shell.say("prune", "--keep", 0).startswith("forgot 1 jobs with their runs, ")


def test_migrate_reports_the_schema_and_what_was_applied(shell: Shell) -> None:
    assert shell.say("migrate") == f"schema {LATEST}: nothing to apply"
    assert shell.ask("migrate") == {"schema": LATEST, "before": LATEST, "applied": []}


def test_a_schema_of_the_future_is_refused(shell: Shell) -> None:
    connection = apsw.Connection(str(shell.path))
    connection.execute("INSERT INTO migration (number, name, oldest, applied_at) VALUES (99, 'later', 99, 0)")
    connection.pragma("user_version", 99)
    connection.close()
    for verb in (["list"], ["migrate"], ["worker", "register", "--name", "a"]):
        assert "made by a newer rota" in shell.refuse(*verb, code=1)


def test_doctor_finds_nothing_wrong_with_a_fresh_database(shell: Shell) -> None:
    head, *lines = shell.say("doctor").splitlines()
    assert head.split() == ["CHECK", "ABOUT", "FOUND"]
    assert {line.split()[0] for line in lines} == {"ok"}
    about = {finding["about"] for finding in shell.ask("doctor")}
    assert about >= {
        "database",
        "permissions",
        "schema",
        "integrity",
        "counters",
        "write lock",
        "clock",
        "workers",
        "jobs",
    }


def test_doctor_warns_of_what_a_person_should_look_at(shell: Shell) -> None:
    silent = shell.register("silent", "--every", "100ms")
    shell.add("A", "--max-attempts", 1)
    shell.say("fail", 1, "--error", "boom", "--force")
    shell.say("pause", "default", "--reason", "lunch")
    os.chmod(shell.path, 0o644)
    eventually(lambda: shell.ask("reconcile")["dead_workers_found"])
    warned = {finding["about"]: finding for finding in shell.ask("doctor") if finding["level"] == "warn"}
    assert set(warned) == {"permissions", "workers", "queues", "jobs"}
    assert silent in warned["workers"]["mend"] and "(lunch)" in warned["queues"]["text"]


def test_doctor_finds_counters_that_are_wrong(shell: Shell) -> None:
    shell.add()
    connection = apsw.Connection(str(shell.path))
    connection.execute("UPDATE tally SET n = n + 1")
    connection.close()
    (bad,) = [finding for finding in shell.ask("doctor", code=1) if finding["level"] == "bad"]
    assert bad["text"] == "2 ready jobs counted in queue default, but there are 1"
    assert "bad" in shell.say("doctor", code=1)


def test_doctor_names_who_holds_the_write_lock(shell: Shell) -> None:
    import fcntl

    with open(f"{shell.path}.lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4242 someone")
        lock.flush()
        findings = {finding["about"]: finding for finding in shell.ask("doctor")}
    assert findings["write lock"]["level"] == "warn" and "4242 someone" in findings["write lock"]["text"]


def test_doctor_of_a_broken_file_says_so(shell: Shell) -> None:
    shell.path.write_bytes(b"rubbish" * 1000)
    (finding,) = shell.ask("doctor", code=1)
    assert finding["level"] == "bad" and "not a SQLite database" in finding["text"]
