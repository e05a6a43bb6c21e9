"""Workers that leave because they should: replaced at once, and their slot is charged nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.store.directives import unacknowledged
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from rota.core.slot import History
    from tests.support.crews import Crew


def only_history(crew: Crew) -> History:
    (slot,) = crew.app.store.slots.all()
    return slot.history


def test_a_worker_that_did_its_number_of_jobs_is_replaced_at_once_and_uncharged(crew: Crew) -> None:
    """More often than a slot may be restarted; and any backoff would be longer than the test waits."""
    crew.env |= {"ROTA_MAX_JOBS": "3", "ROTA_RESTART_BACKOFF": "5m"}
    ids = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(24))]
    crew.start("tag=1")
    done = crew.done(*ids)
    assert {(job.attempts, job.deaths) for job in done} == {(1, 0)}
    assert sorted(map(int, crew.ledger())) == list(range(24))
    by_worker = [[job.worker_id for job in done].count(id) for id in {job.worker_id for job in done}]
    assert by_worker == [3] * 8
    eventually(lambda: len(crew.deaths()) == 8 and crew.up(1))
    assert {(death.reason, death.exit_code) for death in crew.deaths()} == {("recycled", 83)}
    assert (only_history(crew).restarts, only_history(crew).lifetime) == ((), 0)
    assert crew.stop() == 0


def test_a_worker_that_is_asked_to_stop_ends_its_job_and_is_replaced_at_once_and_uncharged(crew: Crew) -> None:
    crew.env["ROTA_RESTART_BACKOFF"] = "5m"
    crew.start("tag=1")
    first = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a"))
    worker = crew.app.jobs.get(first).worker_id or ""
    crew.call("worker", "stop", worker)
    store = crew.app.store
    eventually(
        lambda: not unacknowledged(store, store.orchestrators.last_directive())
    )  # the command itself does not wait
    second = crew.add("tag", n=1)
    crew.let_go("a")
    done, after = crew.done(first, second)
    assert (done.worker_id, done.attempts) == (worker, 1)
    assert after.worker_id != worker, "it took no more once it was asked"
    eventually(lambda: crew.app.workers.get(worker).status == "stopped" and crew.up(1))
    assert (crew.deaths(), only_history(crew).restarts, only_history(crew).lifetime) == ([], (), 0)
    idle = after.worker_id or ""
    crew.call("worker", "stop", idle, "--graceful")
    assert crew.app.workers.get(idle).status == "stopped"
    assert crew.done(crew.add("tag", n=2))[0].worker_id not in (worker, idle)
    assert (crew.deaths(), only_history(crew).lifetime) == ([], 0)
    assert crew.stop() == 0
