"""Jobs by hand, in text and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.shell import Shell

STORES = ["sqlite", "remote"]


def test_add_makes_a_missing_database_says_so_and_names_the_job(bare: Shell) -> None:
    answer = bare.call("add", "Tag a.wav")
    assert answer.stdout == "job 1 ready\n"
    assert answer.stderr == f"rota: made a new database at {bare.path}\n"
    assert bare.call("add", "Tag b.wav").stderr == ""


def test_add_tells_what_a_blocked_job_waits_for(shell: Shell) -> None:
    first, second, third = shell.add(), shell.add(), shell.add()
    assert (
        shell.say("add", "Last", "--after", f"{first},{second}", "--after", str(third)) == "job 4 blocked after 1, 2, 3"
    )


def test_a_payload_comes_from_a_file_or_from_standard_input(shell: Shell) -> None:
    (shell.folder / "payload.json").write_text('{"from": "file"}')
    assert shell.ask("add", "A", "--payload", "@payload.json")["payload"] == {"from": "file"}
    assert shell.ask("add", "B", "--payload", "-", stdin="[1, 2]")["payload"] == [1, 2]


def test_a_key_met_again_answers_with_the_job_that_has_it(shell: Shell) -> None:
    assert shell.say("add", "A", "--key", "k") == "job 1 ready"
    assert shell.say("add", "B", "--key", "k") == "job 1 ready"


def test_a_job_for_later_is_scheduled(shell: Shell) -> None:
    assert shell.say("add", "A", "--at", "+1h") == "job 1 scheduled"
    job = shell.ask("add", "B", "--at", "2200-01-01T09:00Z")
    assert job["status"] == "scheduled" and job["due_at"] == "2200-01-01T09:00:00.000000Z"
    assert shell.say("why", 1).startswith("Job 1 waits for its time: it is due at ")


def test_add_waits_for_room_in_a_full_queue(shell: Shell) -> None:
    shell.say("queue", "set", "default", "--max-depth", 1)
    first = shell.add()
    assert "full" in shell.refuse("add", "B", code=6)
    waiting = shell.start("add", "B", "--wait", "50s")
    shell.say("cancel", first)
    out, _ = waiting.communicate(timeout=60)
    assert out == "job 2 ready\n" and waiting.returncode == 0


def test_list_shows_the_newest_first_and_filters(shell: Shell) -> None:
    assert shell.say("list") == "no jobs; add one with: rota add 'Title'"
    assert shell.ask("list") == []
    shell.add("A", "--queue", "tag"), shell.add("B"), shell.add("C", "--after", 1)
    lines = shell.say("list").splitlines()
    assert lines[0].split() == ["ID", "STATUS", "QUEUE", "PRIORITY", "ATTEMPTS", "AGE", "TITLE"]
    assert [line.split()[0] for line in lines[1:]] == ["3", "2", "1"]
    assert [job["id"] for job in shell.ask("list", "--status", "blocked")] == [3]
    assert [job["id"] for job in shell.ask("list", "--queue", "tag")] == [1]
    assert [job["id"] for job in shell.ask("list", "--before", 3, "--limit", 1)] == [2]
    assert shell.say("list", "--status", "failed") == "no such jobs"


def test_columns_are_aligned_whatever_they_hold(shell: Shell) -> None:
    shell.add("日本語のタイトル", "--queue", "a-rather-long-queue-name"), shell.add("B", "--priority", 100)
    head, *lines = shell.say("list").splitlines()
    assert {line[head.index("TITLE") - 2 : head.index("TITLE")] for line in lines} == {"  "}
    assert [line[head.index("TITLE") :] for line in lines] == ["B", "日本語のタイトル"]


def test_show_is_a_page_with_the_history_of_its_runs(shell: Shell) -> None:
    id, worker = shell.add("Tag a.wav", "--max-attempts", 1, "--payload", '{"path":"a.wav"}'), shell.register()
    shell.say("claim", id, worker)
    assert "no claim on job 1 has ended yet" in shell.say("runs", id)
    shell.say("fail", id, "--error", "no such file")
    page = shell.say("show", id)
    for words in (
        ["title", "Tag", "a.wav"],
        ["status", "failed"],
        ["attempts", "1", "of", "1"],
        ["payload", '{"path":"a.wav"}'],
        ["error", "no", "such", "file"],
    ):
        assert words in [line.split() for line in page.splitlines()], words
    run = page.splitlines()[-1].split()
    assert (run[0][:4], run[1:4], run[-3:]) == ("run-", ["1", "failed", worker], ["no", "such", "file"])
    (document,) = shell.ask("runs", id)
    assert document["status"] == "failed" and document["error"] == "no such file" and document["worker_id"] == worker


def test_a_dependency_is_added_and_removed_after_the_fact(shell: Shell) -> None:
    first, second = shell.add(), shell.add()
    assert shell.say("block", second, first) == f"job {second} blocked after {first}"
    assert shell.say("why", second) == f"Job {second} waits for job {first} (ready)."
    assert shell.ask("why", second) == {"id": second, "why": f"Job {second} waits for job {first} (ready)."}
    assert shell.ask("unblock", second, first)["status"] == "ready"
    assert shell.ask("block", second, first)["status"] == "blocked"
    assert shell.say("unblock", second, first) == f"job {second} ready"


def test_cancel_and_retry(shell: Shell) -> None:
    id = shell.add()
    assert shell.say("cancel", id) == f"job {id} cancelled"
    assert "cancelled already" in shell.refuse("cancel", id, code=4)
    assert shell.say("retry", id) == f"job {id} ready"
    assert "only a job that is done, failed or cancelled" in shell.refuse("retry", id, code=4)
    assert shell.ask("cancel", id)["status"] == "cancelled"
    assert shell.ask("retry", id)["status"] == "ready"


def test_cancel_and_retry_take_several_jobs(shell: Shell) -> None:
    first, second, third = shell.add(), shell.add(), shell.add()
    assert shell.say("cancel", first, f"{second},{third}").splitlines() == [
        f"job {id} cancelled" for id in (first, second, third)
    ]
    assert [job["id"] for job in shell.ask("retry", second, third, second)] == [second, third]


def test_a_refused_job_does_not_stop_the_others_and_the_first_refusal_is_the_exit_code(shell: Shell) -> None:
    first, second = shell.add(), shell.add()
    shell.say("cancel", first)
    answer = shell.call("cancel", first, 99, second)
    assert (answer.returncode, answer.stdout) == (4, f"job {second} cancelled\n")
    assert f"job {first} is cancelled already" in answer.stderr and "99" in answer.stderr
    answer = shell.call("retry", 99, first, second, "--json")
    assert answer.returncode == 3 and [job["id"] for job in json.loads(answer.stdout)] == [first, second]


def test_wait_returns_when_the_jobs_are_there(shell: Shell) -> None:
    first, second = shell.add(), shell.add()
    waiting = shell.start("wait", first, second, "--for", "done", "--timeout", "50s")
    shell.say("done", first, "--force")
    assert waiting.poll() is None
    shell.say("done", second, "--force")
    out, _ = waiting.communicate(timeout=60)
    assert (out, waiting.returncode) == ("job 1 done\njob 2 done\n", 0)
    assert [job["status"] for job in shell.ask("wait", f"{first},{second}")] == ["done", "done"]


def test_wait_gives_up_in_time_and_when_it_can_no_longer_be(shell: Shell) -> None:
    id = shell.add()
    assert "still not done: job 1 (ready)" in shell.refuse("wait", id, "--for", "done", "--timeout", "1ms", code=6)
    assert shell.say("wait", id, "--for", "ready") == "job 1 ready"
    shell.say("cancel", id)
    assert "will not be done" in shell.refuse("wait", id, "--for", "done", code=4)


def test_waiting_for_a_job_promotes_it_when_its_time_has_come(shell: Shell) -> None:
    id = shell.add("Soon", "--at", "+200ms")
    assert shell.say("wait", id, "--for", "ready", "--timeout", "30s") == f"job {id} ready"


def test_ids_come_from_the_environment(shell: Shell) -> None:
    id, worker = shell.add(), shell.register()
    shell = shell.exporting(ROTA_JOB_ID=str(id), ROTA_WORKER_ID=worker)
    claim = shell.ask("claim")
    assert (claim["job_id"], claim["worker_id"]) == (id, worker)
    assert shell.ask("show")["worker_id"] == worker
    assert shell.ask("claim:renew")["renewed_count"] == 1
    assert shell.say("worker", "heartbeat") == "continue"
    assert shell.exporting(ROTA_CLAIM_TOKEN=str(claim["token"])).ask("done")["status"] == "done"
    assert shell.say("wait") == f"job {id} done"
    assert shell.say("worker", "deregister").startswith(worker)


def test_a_token_of_the_environment_speaks_of_the_job_of_the_environment_alone(shell: Shell) -> None:
    mine, other, worker = shell.add(), shell.add(), shell.register()
    token = shell.ask("claim", mine, worker)["token"]
    shell.say("claim", other, worker)
    assert shell.exporting(ROTA_JOB_ID=str(mine), ROTA_CLAIM_TOKEN=str(token)).ask("done", other)["status"] == "done"
    assert shell.ask("show", mine)["status"] == "active"


def test_the_database_of_a_folder_above_is_found_and_another_may_be_named(bare: Shell) -> None:
    shell = bare
    shell.add("Above")
    below = shell.folder / "a" / "b"
    below.mkdir(parents=True)
    shell.folder = below
    assert len(shell.ask("list")) == 1
    other = below / "other.db"
    assert shell.say("add", "Named", "--db", f"sqlite:///{other}") == "job 1 ready"
    assert [job["title"] for job in shell.exporting(ROTA_DB=str(other)).ask("list")] == ["Named"]
    assert [job["title"] for job in shell.ask("--db", str(other), "list")] == ["Named"]
    assert other.stat().st_mode & 0o777 == 0o600


def test_a_job_may_wait_for_any_end_of_others_and_show_their_results(shell: Shell) -> None:
    first, second = shell.add(), shell.add()
    then = shell.add("Report", "--after", first, "--after", second, "--until", "final")
    shell.say("claim", first)
    shell.say("done", first, "--result", '{"n": 1}')
    shell.say("claim", second)
    shell.say("fail", second, "--error", "no", "--final")
    assert shell.ask("show", then)["status"] == "ready"
    found = shell.ask("results", then)
    assert [(each["id"], each["status"], each["result"], each["error"]) for each in found] == [
        (first, "done", {"n": 1}, None),
        (second, "failed", None, "no"),
    ]
    assert (
        '{"n":1}' in shell.say("results", then).replace(" ", "")
        and shell.say("results", first) == f"job {first} waited for none"
    )
    assert "done, final" in shell.refuse("add", "x", "--until", "over", code=2)
    assert "there is no job 99" in shell.refuse("results", 99, code=3)


def test_a_key_is_debounced_and_what_makes_no_sense_is_refused(shell: Shell) -> None:
    first = shell.ask("add", "One", "--key", "k", "--debounce", "1h", "--at-most", "2h")
    second = shell.ask("add", "Two", "--key", "k", "--debounce", "1h", "--payload", "2")
    assert (second["id"], second["title"], second["payload"]) == (first["id"], "Two", 2)
    assert second["status"] == "scheduled" and second["due_at"] > first["due_at"]
    assert "needs a key" in shell.refuse("add", "x", "--debounce", "5s", code=2)
    assert "goes with debounce" in shell.refuse("add", "x", "--key", "k", "--at-most", "5s", code=2)
    assert "leave out at" in shell.refuse("add", "x", "--key", "k", "--debounce", "5s", "--at", "+1h", code=2)
    assert shell.ask("list") == [second]


def test_a_unique_key_admits_the_next_job_once_the_last_has_left_that_state(shell: Shell) -> None:
    first = shell.ask("add", "Sync ann", "--key", "ann", "--unique", "active")
    assert shell.ask("add", "Sync ann", "--key", "ann", "--unique", "active") == first
    token = shell.ask("claim", first["id"])["token"]
    assert shell.ask("add", "Sync ann", "--key", "ann", "--unique", "active")["id"] == first["id"]
    waits = shell.ask("add", "Sync ann", "--key", "ann", "--unique", "waiting")
    assert waits["id"] != first["id"] and waits["status"] == "ready"
    shell.say("done", first["id"], "--token", token)
    shell.say("cancel", waits["id"])
    assert shell.ask("add", "Sync ann", "--key", "ann")["id"] == waits["id"], "a plain key finds a job that is over"
    assert shell.ask("add", "Sync ann", "--key", "ann", "--unique", "active")["id"] > waits["id"]
    assert "needs a key" in shell.refuse("add", "x", "--unique", "active", code=2)
    assert "waiting, active" in shell.refuse("add", "x", "--key", "k", "--unique", "done", code=2)


def test_a_held_job_is_snoozed_with_its_token_or_without(shell: Shell) -> None:
    job = shell.add()
    assert "claim it first" in shell.refuse("snooze", job, "--for", "10m", code=4)
    token = shell.ask("claim", job)["token"]
    shell.refuse("snooze", job, "--for", "10m", "--token", token + 1, code=5)
    found = shell.ask("snooze", job, "--for", "10m", "--token", token, "--note", "asleep")
    assert (found["status"], found["attempts"], found["note"]) == ("scheduled", 0, "asleep")
    other = shell.add()
    shell.say("claim", other)
    assert shell.say("snooze", other, "--for", "1h") == f"job {other} scheduled"
    assert "--for" in shell.refuse("snooze", other, code=2)


def test_show_names_no_run_of_a_job_that_was_released(shell: Shell) -> None:
    job = shell.add()
    shell.say("claim", job)
    assert "\nrun " in shell.say("show", job)
    shell.say("claim", "release", job)
    assert "\nrun " not in shell.say("show", job)
