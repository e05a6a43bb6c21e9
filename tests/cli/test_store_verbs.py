"""`init`, `events`, `prune`, `migrate`, `doctor`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import apsw

from rota.store.migrate import LATEST
from tests.support.eventually import eventually
from tests.support.processes import LOCK_WITHOUT_QUEUEING, line, python

if TYPE_CHECKING:
    from tests.support.shell import Shell


def test_init_makes_a_database_once(bare: Shell) -> None:
    assert bare.say("init").startswith(f"made a new database at {bare.path}\n")
    assert bare.say("init").startswith(f"there is a database at {bare.path} already\n")
    assert bare.ask("init") == {"path": str(bare.path), "made": False, "schema": LATEST, "files": []}
    assert bare.path.stat().st_mode & 0o777 == 0o600
    assert bare.path.parent.stat().st_mode & 0o777 == 0o700


def test_init_makes_one_here_even_below_another(shell: Shell) -> None:
    below = shell.folder / "below"
    below.mkdir()
    shell.folder = below
    assert shell.ask("init") == {
        "path": str(below / ".rota" / "rota.db"),
        "made": True,
        "schema": LATEST,
        "files": ["rota.toml", "app.py"],
    }


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
    assert "made by a newer rota" in shell.say("doctor", code=1)


def test_failed_jobs_are_what_doctor_and_top_name_with_counts_by_error(shell: Shell) -> None:
    for error in ("no ink", "no ink", "no paper"):
        shell.say("fail", shell.add("A", "--queue", "print"), "--error", error, "--final", "--force")
    told = [each for each in shell.ask("doctor") if each["about"] == "failures"]
    assert [each["text"] for each in told] == ["2 jobs failed: no ink", "1 job failed: no paper"]
    assert told[0]["mend"] == "`rota list --status failed --queue print`, then `rota retry ID`"
    assert [each["text"] for each in shell.ask("top")["attention"]] == [each["text"] for each in told]
    assert "2 jobs failed: no ink" in shell.say("top")


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
    assert set(warned) == {"permissions", "workers", "queues", "jobs", "failures"}
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

    shell.add()
    with open(f"{shell.path}.lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4242 someone")
        lock.flush()
        findings = {finding["about"]: finding for finding in shell.ask("doctor")}
    assert findings["write lock"]["level"] == "warn" and "4242 someone" in findings["write lock"]["text"]


def test_doctor_names_a_program_that_locks_the_database_without_queueing(shell: Shell) -> None:
    shell.add()
    with python(LOCK_WITHOUT_QUEUEING, shell.path) as stranger:
        assert line(stranger) == "locked"
        findings = {finding["about"]: finding for finding in shell.ask("doctor")}
    assert f"held by process {stranger.pid} python" in findings["write lock"]["text"]
    assert findings["write lock"]["level"] == "warn"


def test_doctor_of_a_broken_file_says_so(shell: Shell) -> None:
    shell.path.write_bytes(b"rubbish" * 1000)
    finding = shell.ask("doctor", code=1)[-1]
    assert finding["level"] == "bad" and "not a SQLite database" in finding["text"]
