"""A claim that is lost, a worker that is unknown, a store that fails: what the handler hears, and what is written."""

from __future__ import annotations

import signal

from rota.core.claim import Done
from tests.support.eventually import eventually
from tests.worker.inprocess.workshop import Workshop

WATCH = """
def execute(job, ctx):
    note(f"began {job.id}")
    if job.title == "slow":
        until(lambda: ctx.lost)
        note(f"lost {job.id}")
        for use in (ctx.renew_lease, lambda: setattr(ctx, "checkpoint", "late")):
            try:
                use()
            except rota.Stale:
                note("stale")
    return "by the first"
note(f"returned {rota.run_worker(execute, limit=2)}")
"""
WORK = """
def execute(job, ctx):
    note(f"began {job.id}")
    wait_for("go")
rota.run_worker(execute)
"""


def test_a_claim_that_was_taken_is_told_and_not_settled(workshop: Workshop) -> None:
    id = workshop.add("slow")
    script = workshop.start(WATCH)
    workshop.noted(f"began {id}")
    workshop.freeze(script)
    eventually(lambda: workshop.store.reconcile().dead_workers_found)
    claim = workshop.store.claims.claim(id)
    script.signal(signal.SIGCONT)
    workshop.noted(f"lost {id}")
    eventually(lambda: "not settled: " in script.said)

    job = workshop.job(id)
    assert (job.status, job.token, job.checkpoint) == ("active", claim.token, None)
    assert workshop.notes().count("stale") == 2
    workshop.store.claims.settle(claim, Done('"by the second"'))
    workshop.add("quick")
    assert script.ended() == 0
    assert workshop.notes()[-1] == "returned 2", "it goes on with the next job"
    assert workshop.job(id).result == "by the second"


def test_a_job_that_is_called_off_is_told_and_not_settled(workshop: Workshop) -> None:
    id = workshop.add("slow")
    script = workshop.start(WATCH)
    workshop.noted(f"began {id}")
    workshop.shell.say("cancel", id)
    workshop.noted(f"lost {id}")
    eventually(lambda: "not settled: " in script.said)

    assert workshop.job(id).status == "cancelled"


def test_a_handler_may_outlast_its_lease_because_it_is_renewed(workshop: Workshop) -> None:
    id = workshop.add()
    workshop.start(WORK, ROTA_LEASE="3s", ROTA_HEARTBEAT_INTERVAL="10s")
    workshop.noted(f"began {id}")
    eventually(lambda: workshop.job(id).renewed_count >= 4)
    assert workshop.store.reconcile().expired_claims_released == 0
    workshop.touch("go")
    workshop.ends(id)

    assert [run.status for run in workshop.store.claims.runs(id)] == ["completed"]


def test_a_lease_that_nobody_could_renew_is_told_by_the_clock_alone(workshop: Workshop) -> None:
    id = workshop.add("slow")
    script = workshop.start(WATCH, ROTA_LEASE="3s")
    workshop.noted(f"began {id}")
    workshop.refuse("worker", "NEW.heartbeat_count > OLD.heartbeat_count")
    workshop.noted(f"lost {id}")

    assert "could not beat, and tries again: " in script.said


def test_a_time_out_bounds_the_lease_however_often_it_is_renewed(workshop: Workshop) -> None:
    id = workshop.add(timeout=400_000, max_attempts=1)
    workshop.start(WORK)
    workshop.noted(f"began {id}")
    workshop.ends(id, "failed")
    workshop.touch("go")

    assert [run.reason for run in workshop.store.claims.runs(id)] == ["lapse"]


def test_an_unknown_worker_registers_again_and_goes_on(workshop: Workshop) -> None:
    workshop.start(WORK)
    workshop.touch("go")
    first = workshop.registered()
    workshop.shell.say("worker", "deregister", first)
    second = workshop.registered(2)
    id = workshop.add()

    assert workshop.ends(id).worker_id == second != first


def test_a_worker_that_was_deregistered_with_a_job_in_hand_has_lost_it(workshop: Workshop) -> None:
    id = workshop.add("slow")
    script = workshop.start(WATCH)
    workshop.noted(f"began {id}")
    first = workshop.registered()
    workshop.shell.say("pause", "default")
    workshop.shell.say("worker", "deregister", first)
    workshop.noted(f"lost {id}")
    workshop.registered(2)
    eventually(lambda: "not settled: " in script.said)

    assert (workshop.job(id).status, workshop.job(id).attempts) == ("ready", 0)


def test_what_it_holds_and_does_not_know_of_goes_back(workshop: Workshop) -> None:
    workshop.start(WORK, ROTA_POLL_INTERVAL="100ms")
    worker = workshop.registered()
    id = workshop.add("elsewhere", queue="other")
    workshop.shell.say("claim", id, worker)
    eventually(lambda: workshop.job(id).status == "ready")

    assert workshop.job(id).note == "held by a worker that has nothing in hand" and workshop.job(id).attempts == 0


def test_a_store_that_fails_is_asked_again_until_it_takes_the_outcome(workshop: Workshop) -> None:
    id = workshop.add()
    script = workshop.start(WORK)
    workshop.noted(f"began {id}")
    workshop.refuse("job", "NEW.status = 'done'")
    workshop.touch("go")
    eventually(lambda: script.said.count("could not settle, and tries again: ") > 1)
    assert workshop.job(id).status == "active"
    workshop.relent()
    workshop.ends(id)

    assert [run.status for run in workshop.store.claims.runs(id)] == ["completed"]


def test_a_stop_does_not_wait_for_ever_for_a_store_that_fails(workshop: Workshop) -> None:
    id = workshop.add()
    script = workshop.start(WORK, ROTA_SHUTDOWN_TIMEOUT="700ms")
    workshop.noted(f"began {id}")
    workshop.refuse("job", "NEW.status = 'done'")
    script.signal(signal.SIGTERM)
    workshop.touch("go")

    assert script.ended() == 0
    assert f"leaves job {id} unsettled, token {workshop.job(id).token}" in script.said
    assert (workshop.job(id).status, workshop.job(id).attempts) == ("ready", 0), "deregistering gave it back"


def test_a_job_is_given_back_unspent_when_it_could_not_be_begun(workshop: Workshop) -> None:
    workshop.refuse("worker", "NEW.heartbeat_count > OLD.heartbeat_count")
    id = workshop.add()
    script = workshop.start(WORK)
    eventually(lambda: script.said.count("released: not started: ") > 2 and "could not beat" in script.said)
    first, second, *_ = workshop.store.claims.runs(id)
    assert second.claimed_at - first.ended_at > 400_000, "it does not spin while the store fails"
    workshop.relent()
    workshop.touch("go")

    assert workshop.ends(id).attempts == 1
    assert workshop.notes() == [f"began {id}"]


def test_trouble_with_claiming_passes(workshop: Workshop) -> None:
    workshop.refuse("job", "NEW.status = 'active'")
    id = workshop.add()
    script = workshop.start(WORK)
    eventually(lambda: "could not claim, and tries again: " in script.said)
    workshop.relent()
    workshop.touch("go")

    assert workshop.ends(id).attempts == 1
