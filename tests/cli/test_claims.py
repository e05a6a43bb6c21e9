"""Claims by hand: one holder, a lease, a token that fences; in text and JSON."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.shell import Shell

STORES = ["sqlite", "remote"]


def lapsed(shell: Shell) -> tuple[int, str, str, int, int]:
    """A job whose first holder lost it to a second: the job, both workers, both tokens."""
    id, first, second = shell.add(), shell.register("first"), shell.register("second")
    lost = shell.ask("claim", id, first, "--lease", "1ms")["token"]
    taken = eventually(lambda: shell.call("claim", id, second).returncode == 0)
    assert taken
    return id, first, second, lost, int(shell.say("show", id).split("token")[1].split()[0])


def test_ready_lists_the_best_first_and_nothing_as_an_empty_list(shell: Shell) -> None:
    assert shell.ask("ready") == []
    assert shell.say("ready") == "nothing is ready"
    shell.add("Low"), shell.add("High", "--priority", 5), shell.add("Other", "--queue", "tag")
    assert [job["title"] for job in shell.ask("ready")] == ["High", "Low", "Other"]
    assert [job["title"] for job in shell.ask("ready", "--limit", 1)] == ["High"]
    assert [job["title"] for job in shell.ask("ready", "--queue", "tag")] == ["Other"]
    assert shell.say("ready").splitlines()[1].split()[0] == "2"


def test_ready_claim_takes_the_best_in_one_step(shell: Shell) -> None:
    worker = shell.register()
    assert shell.ask("ready", "--claim", worker, code=6) == []
    assert shell.refuse("ready", "--claim", worker, code=6) == "nothing is ready"
    shell.add("Low"), shell.add("High", "--priority", 5)
    (job,) = shell.ask("ready", "--claim", worker, "--lease", "2h")
    assert (job["title"], job["status"], job["worker_id"]) == ("High", "active", worker)
    assert job["claim"]["job_id"] == job["id"] and job["claim"]["run_id"] == job["run_id"]
    text = shell.say("ready", "--claim", worker)
    assert text.startswith(f"job 1 claimed by {worker}, token {job['claim']['token'] + 1}, lease until ")
    assert text.endswith(": Low")


def test_ready_claim_without_a_worker_takes_that_of_the_environment_else_the_person(shell: Shell) -> None:
    worker = shell.register()
    shell.add(), shell.add()
    assert shell.exporting(ROTA_WORKER_ID=worker).ask("ready", "--claim")[0]["worker_id"] == worker
    implicit = shell.ask("ready", "--claim", "--queue", "default")[0]["worker_id"]
    assert implicit != worker and implicit in shell.say("worker", "list")


def test_claim_names_the_token_and_the_end_of_the_lease(shell: Shell) -> None:
    id, worker = shell.add(), shell.register()
    text = shell.say("claim", id, worker)
    token = shell.ask("claim:renew", id, worker)["token"]
    assert text.startswith(f"job {id} claimed by {worker}, token {token}, lease until 20") and text.endswith("Z")


def test_a_bare_lease_is_minutes(shell: Shell) -> None:
    id = shell.add()
    claim = shell.ask("claim", id, "--lease", "90")
    hours = [int(claim[name][11:13]) * 60 + int(claim[name][14:16]) for name in ("claimed_at", "lease_expires_at")]
    assert (hours[1] - hours[0]) % (24 * 60) == 90


def test_a_claimed_job_is_a_conflict_for_others(shell: Shell) -> None:
    id, worker = shell.add(), shell.register()
    shell.say("claim", id, worker)
    assert f"job {id} is claimed by {worker} until " in shell.refuse("claim", id, code=4)
    shell.say("done", id)
    assert "done already" in shell.refuse("claim", id, worker, code=4)


def test_a_blocked_or_paused_job_is_refused(shell: Shell) -> None:
    first = shell.add()
    second = shell.add("B", "--after", first)
    assert f"`rota why {second}`" in shell.refuse("claim", second, code=6)
    shell.say("pause")
    assert "paused" in shell.refuse("claim", first, code=6)


def test_a_worker_that_nobody_knows_must_register(shell: Shell) -> None:
    id = shell.add()
    assert "register again" in shell.refuse("claim", id, "worker-00000000", code=7)
    assert "register again" in shell.refuse("ready", "--claim", "worker-00000000", code=7)
    assert shell.ask("show", id)["status"] == "ready"


def test_claiming_null_waits_for_work_and_then_says_that_there_was_nothing(shell: Shell) -> None:
    worker = shell.register()
    began = time.monotonic()
    assert shell.refuse("claim", "null", worker, code=6) == "nothing is ready: waited 5s for work"
    assert time.monotonic() - began >= 5


def test_claiming_nothing_ends_as_soon_as_there_is_work(shell: Shell) -> None:
    worker = shell.register()
    waiting = shell.start("claim", "", worker)
    shell.add("Soon", "--at", "+100ms")
    _, error = waiting.communicate(timeout=60)
    assert (waiting.returncode, error) == (6, "rota: nothing was ready to claim, but now there is: look again\n")
    assert [job["status"] for job in shell.ask("list")] == ["ready"]


def test_claim_renew_extends_and_never_shortens(shell: Shell) -> None:
    id, worker = shell.add(), shell.register()
    claim = shell.ask("claim", id, worker, "--lease", "1h")
    longer = shell.ask("claim", "renew", id, worker, "--lease", "3h")
    shorter = shell.ask("claim:renew", id, worker, "--lease", "1m", "--token", claim["token"])
    assert claim["lease_expires_at"] < longer["lease_expires_at"] == shorter["lease_expires_at"]
    assert shorter["renewed_count"] == 2
    assert shell.say("claim:renew", id, worker).startswith(f"job {id} renewed, lease until ")


def test_claim_release_gives_the_job_back_with_a_note(shell: Shell) -> None:
    id, worker = shell.add(), shell.register()
    shell.say("claim", id, worker)
    assert shell.say("claim:release", id, worker, "--note", "try the other model") == f"job {id} ready"
    job = shell.ask("show", id)
    assert (job["note"], job["attempts"]) == ("try the other model", 0)
    token = shell.ask("claim", id, worker)["token"]
    assert shell.ask("claim", "release", id, "--token", token)["status"] == "ready"


def test_releasing_what_its_own_worker_has_settled_is_no_error(shell: Shell) -> None:
    id, worker, other = shell.add(), shell.register(), shell.register("other")
    token = shell.ask("claim", id, worker)["token"]
    shell.say("done", id)
    before = shell.contents()
    assert shell.say("claim:release", id, worker) == f"job {id} was settled already: it is done"
    assert shell.ask("claim:release", id, "--token", token)["status"] == "done"
    shell.refuse("claim:release", id, other, code=5)
    shell.refuse("claim:release", id, "--token", token + 1, code=5)
    assert shell.contents() == before


def test_done_settles_with_or_without_the_token(shell: Shell) -> None:
    first, second, worker = shell.add(), shell.add(), shell.register()
    token = shell.ask("claim", first, worker)["token"]
    assert shell.say("done", first, "--token", token, "--result", '{"tags": 3}') == f"job {first} done"
    assert shell.ask("show", first)["result"] == {"tags": 3}
    shell.say("claim", second, worker)
    assert shell.ask("done", second)["status"] == "done"
    assert "done already" in shell.refuse("done", second, code=4)


def test_settling_again_with_the_token_that_settled_succeeds_and_changes_nothing(shell: Shell) -> None:
    first, second, worker = shell.add(), shell.add("B", "--max-attempts", 1), shell.register()
    done = shell.ask("claim", first, worker)["token"]
    failed = shell.ask("claim", second, worker)["token"]
    shell.say("done", first, "--token", done)
    shell.say("fail", second, "--error", "no", "--token", failed)
    before = shell.contents()
    assert shell.say("done", first, "--token", done) == f"job {first} done"
    assert shell.say("fail", second, "--error", "no", "--token", failed) == f"job {second} failed (attempt 1 of 1)"
    shell.refuse("fail", first, "--error", "no", "--token", done, code=5)
    shell.refuse("done", second, "--token", failed, code=5)
    assert shell.contents() == before


def test_a_token_that_settled_another_job_settles_nothing_here(shell: Shell) -> None:
    first, second, worker = shell.add(), shell.add(), shell.register()
    token = shell.ask("claim", first, worker)["token"]
    shell.say("done", first, "--token", token)
    shell.refuse("done", second, "--token", token, code=5)
    assert shell.ask("show", second)["status"] == "ready"


def test_a_job_that_nobody_holds_is_settled_by_force_alone(shell: Shell) -> None:
    first, second = shell.add(), shell.add()
    assert "--force" in shell.refuse("done", first, code=4)
    assert shell.ask("done", first, "--force")["status"] == "done"
    assert shell.ask("fail", second, "--error", "never", "--force")["status"] == "failed"


def test_fail_tries_again_while_attempts_are_left_unless_final(shell: Shell) -> None:
    id, other, worker = shell.add("A", "--max-attempts", 2), shell.add(), shell.register()
    shell.say("claim", id, worker)
    assert shell.ask("fail", id, "--error", "boom")["status"] in ("scheduled", "ready")
    shell.say("claim", other, worker)
    job = shell.ask("fail", other, "--error", "no use", "--final")
    assert (job["status"], job["attempts"], job["error"]) == ("failed", 1, "no use")


def test_a_holder_whose_job_was_taken_is_refused_everywhere_and_changes_nothing(shell: Shell) -> None:
    id, first, second, lost, current = lapsed(shell)
    before = shell.contents()
    shell.refuse("claim:renew", id, first, code=5)
    shell.refuse("claim:renew", id, "--token", lost, code=5)
    shell.refuse("claim:release", id, first, code=5)
    shell.refuse("claim:release", id, "--token", lost, code=5)
    shell.refuse("done", id, "--token", lost, code=5)
    shell.refuse("done", id, code=5)
    shell.refuse("fail", id, "--error", "late", "--token", lost, code=5)
    shell.refuse("fail", id, "--error", "late", code=5)
    assert shell.contents() == before
    assert shell.ask("done", id, "--token", current)["worker_id"] == second


def test_force_settles_what_a_stale_token_may_not(shell: Shell) -> None:
    id, *_, lost, _ = lapsed(shell)
    shell.refuse("done", id, "--token", lost, code=5)
    assert shell.ask("done", id, "--force")["status"] == "done"
    assert "unfenced" in shell.say("events")
