"""The documents have exactly the fields that are promised, in that order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.shell import Shell

JOB = (
    "id title queue kind status priority payload parent children after attempts max_attempts due_at created_at "
    "started_at finished_at result error worker_id run_id note scheduled_for"
)
WORKER = (
    "id name hostname pid status registered_at last_heartbeat_at heartbeat_interval current_job slot version "
    "heartbeat_count success_count error_count last_error_at last_error_message metadata"
)
CLAIM = "id job_id worker_id run_id token claimed_at lease_expires_at renewed_count status"
RECONCILED = (
    "dead_workers_found expired_claims_released orphaned_jobs_recovered orphaned_claims_released stale_states_fixed"
)

STORES = ["sqlite", "remote"]


def test_a_job_document_has_the_promised_fields(shell: Shell) -> None:
    first = shell.add("First")
    job = shell.ask(
        "add", "Second", "--queue", "tag", "--kind", "label", "--payload", '{"b": 1, "a": [1.50]}', "--priority", -2,
        "--after", first, "--parent", first, "--max-attempts", 7, "--key", "k",
    )  # fmt: skip
    assert " ".join(job) == JOB
    assert job["payload"] == {"b": 1, "a": [1.5]} and job["kind"] == "label" and job["priority"] == -2
    assert job["after"] == [first] and job["parent"] == first and job["max_attempts"] == 7
    assert job["status"] == "blocked" and job["worker_id"] is None and job["started_at"] is None
    assert job["created_at"].endswith("Z") and job["created_at"][10] == "T"
    assert shell.ask("show", first)["children"] == [job["id"]]


def test_a_job_document_names_its_holder_only_while_there_is_one_or_once_it_is_over(shell: Shell) -> None:
    id, worker = shell.add(), shell.register()
    claim = shell.ask("claim", id, worker)
    held = shell.ask("show", id)
    assert (held["worker_id"], held["run_id"]) == (worker, claim["run_id"]) and held["started_at"]
    shell.say("claim:release", id, worker, "--note", "half done")
    waiting = shell.ask("show", id)
    assert (waiting["worker_id"], waiting["run_id"], waiting["started_at"]) == (None, None, None)
    assert waiting["note"] == "half done"
    again = shell.ask("claim", id, worker)
    over = shell.ask("done", id, "--token", again["token"], "--result", '"ok"')
    assert (over["worker_id"], over["run_id"], over["result"]) == (worker, again["run_id"], "ok") and over[
        "finished_at"
    ]


def test_a_claim_document_has_the_promised_fields_and_its_token_as_id(shell: Shell) -> None:
    id, worker = shell.add(), shell.register()
    claim = shell.ask("claim", id, worker, "--lease", "90s")
    assert " ".join(claim) == CLAIM
    assert claim["id"] == claim["token"] and claim["job_id"] == id and claim["worker_id"] == worker
    assert claim["status"] == "active" and claim["renewed_count"] == 0
    assert claim["run_id"].startswith("run-") and len(claim["run_id"]) == 12


def test_a_worker_document_has_the_promised_fields(shell: Shell) -> None:
    worker = shell.ask("worker", "register", "--name", "w", "--every", "1.5s", "--pid", 77)
    assert " ".join(worker) == WORKER
    assert worker["heartbeat_interval"] == 1.5 and worker["pid"] == 77 and worker["metadata"] == {}
    shell.say("worker", "heartbeat", worker["id"], "--cpu", "12.5", "--memory", 80, "--completed", 3)
    (listed,) = shell.ask("worker", "list")
    assert listed["metadata"] == {"cpu": 12.5, "memory": 80, "completed": 3} and listed["heartbeat_count"] == 1


def test_a_reconcile_document_has_the_promised_fields(shell: Shell) -> None:
    assert " ".join(shell.ask("reconcile")) == RECONCILED
    assert " ".join(shell.ask("orchestrator", "reconcile", "--plan")) == RECONCILED
