"""Claims of watched workers hang on their orchestrator's lease; when the store was away, nothing lapses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rota.core.claim import Done
from rota.core.errors import Stale
from rota.core.job import ACTIVE, READY
from rota.core.orchestrator import LEASE
from rota.core.times import HOUR, MINUTE, SECOND
from rota.core.worker import Dead
from rota.store.workers.orphans import move_to_lease
from tests.support.work import Crew, add, add_many, last_event, register, status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.store.engine.rows import Row
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def beat_all(clock: FakeClock, crews: list[Crew], duration: int) -> None:
    """Let time pass while these orchestrators renew every few seconds."""
    for _ in range(duration // (4 * SECOND)):
        clock.advance(4 * SECOND)
        for crew in crews:
            crew.renew()
    clock.advance(duration % (4 * SECOND))


def test_renewals_keep_every_claim_alive_however_long(store: Store, clock: FakeClock) -> None:
    ids = add_many(store, 3)
    crew = Crew(store)
    crew.exchange(room=3)
    beat_all(clock, [crew], HOUR)
    store.reconcile()
    assert [status(store, id) for id in ids] == [ACTIVE] * 3


def test_a_renewal_tells_when_each_of_its_own_workers_last_spoke(store: Store, clock: FakeClock) -> None:
    crew, others = Crew(store, workers=2), Crew(store, queue="tag")
    before = clock.now()
    clock.advance(MINUTE)
    heard = [(crew.workers[0], 2 * SECOND), (others.workers[0], 0)]
    store.orchestrators.renew(crew.id, heard=heard)
    spoke = [store.workers.get(worker).last_heartbeat_at for worker in (*crew.workers, *others.workers)]
    assert spoke == [clock.now() - 2 * SECOND, before, before]


def test_a_renewal_never_shortens(store: Store, clock: FakeClock) -> None:
    crew = Crew(store)
    first = crew.renew()
    assert first == clock.now() + LEASE
    clock.advance(SECOND)
    assert crew.renew() == clock.now() + LEASE


def statements_of_a_renewal(store: Store, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What one renewal asks of the database, by name."""
    asked: list[str] = []
    execute = store.database.execute

    def note(name: str, params: Mapping[str, Any]) -> list[Row]:
        asked.append(name)
        return execute(name, params)

    with monkeypatch.context() as patch:
        patch.setattr(store.database, "execute", note)
        patch.setattr(store.database, "many", None)  # nothing row by row
        crew.renew()
    return asked


def test_a_renewal_costs_a_host_with_500_claims_the_statements_of_one_with_a_single_claim(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_many(store, 501)
    one, many = Crew(store, 1), Crew(store, 10)
    assert (len(one.exchange(room=1).claims), len(many.exchange(room=50).claims)) == (1, 500)
    asked = statements_of_a_renewal(store, many, monkeypatch)
    assert asked == statements_of_a_renewal(store, one, monkeypatch)
    assert asked == ["orchestrator.get", "orchestrator.renew", "orchestrator.pulse", "orchestrator.beat_pulse"], (
        "one is of the host"
    )


def test_an_exchange_that_is_written_renews_the_lease_too(store: Store, clock: FakeClock) -> None:
    ids = add_many(store, 20)
    crew, there = Crew(store), Crew(store, 0)
    for _ in ids:
        clock.advance(LEASE - 1)
        there.renew()
        assert crew.exchange().claims
    store.tick()
    assert {status(store, id) for id in ids} == {ACTIVE}


def test_a_lapsed_lease_makes_its_workers_lost_and_spends_only_what_each_had_in_hand(
    store: Store, clock: FakeClock
) -> None:
    ids = add_many(store, 4, max_attempts=2)
    gone, there = Crew(store, 2), Crew(store, 1, "other")
    claims = gone.exchange(room=2).claims
    beat_all(clock, [there], LEASE - 1)
    store.tick()
    assert [status(store, id) for id in ids] == [ACTIVE] * 4, "not before the clock says so"
    clock.advance(1)
    there.renew()
    before = last_event(store)
    store.tick()
    assert len(store.events.after(before)) == 1
    assert [(status(store, id), store.jobs.get(id).attempts) for id in ids] == [
        (READY, 1),
        (READY, 1),
        (READY, 0),
        (READY, 0),
    ]
    for worker in gone.workers:
        certificate = store.workers.certificate(worker)
        assert certificate is not None and certificate.reason == "lost"
        assert store.workers.get(worker).status == "dead"
    assert store.workers.get(there.workers[0]).status == "idle"
    report = [(each.job_id, each.token, Done()) for each in claims]
    for late in (gone.renew, lambda: gone.exchange(report)):
        with pytest.raises(Stale):
            late()
    assert [status(store, id) for id in ids] == [READY] * 4


@pytest.mark.parametrize("how", ["dies", "lapses"])
def test_an_orphan_spends_only_what_it_had_in_hand(store: Store, clock: FakeClock, how: str) -> None:
    ids = add_many(store, 4, max_attempts=2)
    crew = Crew(store)
    crew.exchange(room=4)
    with store.write() as tx:
        move_to_lease(tx, crew.workers[0])
    if how == "dies":
        store.orchestrators.mark_dead(crew.workers[0], Dead("lost", "killed"))
    else:
        clock.advance(LEASE)
        store.tick()
    assert [(status(store, id), store.jobs.get(id).attempts) for id in ids] == [(READY, 1)] + [(READY, 0)] * 3
    assert [len(store.claims.runs(id)) for id in ids] == [1, 0, 0, 0]


def test_until_someone_notices_a_lapsed_orchestrator_may_still_renew_and_settle(store: Store, clock: FakeClock) -> None:
    job, crew = add(store), Crew(store)
    (handout,) = crew.exchange().claims
    clock.advance(10 * LEASE)
    crew.renew()
    assert status(store, job) == ACTIVE
    clock.advance(10 * LEASE)
    assert crew.exchange([(job, handout.token, Done())], room=0).refused == []
    assert status(store, job) == "done"


def test_when_no_pulse_was_seen_for_long_a_grace_of_one_lease_is_given_once(store: Store, clock: FakeClock) -> None:
    job, crew = add(store), Crew(store)
    crew.exchange()
    clock.advance(HOUR)
    store.tick()
    assert status(store, job) == ACTIVE, "the store itself may have been away"
    clock.advance(LEASE - 1)
    store.tick()
    assert status(store, job) == ACTIVE
    clock.advance(1)
    store.tick()
    assert status(store, job) == READY, "the grace is given once"


def test_a_renewal_within_the_grace_saves_everything(store: Store, clock: FakeClock) -> None:
    job, crew = add(store), Crew(store)
    crew.exchange()
    clock.advance(HOUR)
    store.tick()
    clock.advance(LEASE - 1)
    crew.renew()
    clock.advance(SECOND)
    store.tick()
    assert status(store, job) == ACTIVE


def test_beats_get_the_grace_too(store: Store, clock: FakeClock) -> None:
    Crew(store)
    worker = register(store)
    clock.advance(HOUR)
    store.tick()
    assert store.workers.get(worker).status == "idle"
    clock.advance(60 * SECOND)
    store.tick()
    assert store.workers.get(worker).status == "dead"


def test_after_an_outage_the_first_to_renew_costs_nobody_the_grace(store: Store, clock: FakeClock) -> None:
    """Fault 35a: the others have not had the time to renew yet, nor a registered worker to beat."""
    job, first, second = add(store), Crew(store), Crew(store)
    second.exchange()
    worker = register(store)
    clock.advance(MINUTE)
    first.renew()
    store.tick()
    assert status(store, job) == ACTIVE and store.workers.get(worker).status == "idle"
    second.renew()
    assert second.exchange(room=0).refused == []


def test_a_renewal_that_was_kept_waiting_for_less_than_a_lease_gives_no_grace(store: Store, clock: FakeClock) -> None:
    """Fault 35: what a cut link left open may stop everyone for seconds; its host is lost in time all the same."""
    job, away, there = add(store), Crew(store), Crew(store, 0)
    away.exchange()
    clock.advance(11 * SECOND)
    there.renew()
    clock.advance(4 * SECOND)
    store.tick()
    assert status(store, job) == READY


def test_one_that_begins_after_an_outage_costs_nobody_the_grace(store: Store, clock: FakeClock) -> None:
    job, there = add(store), Crew(store)
    there.exchange()
    clock.advance(MINUTE)
    Crew(store)
    store.tick()
    assert status(store, job) == ACTIVE


def test_without_any_orchestrator_there_is_no_pulse_to_wait_for(store: Store, clock: FakeClock) -> None:
    worker = register(store)
    clock.advance(HOUR)
    store.tick()
    assert store.workers.get(worker).status == "dead"


def test_a_fresh_pulse_of_another_host_means_that_only_this_one_is_away(store: Store, clock: FakeClock) -> None:
    job, away, there = add(store), Crew(store), Crew(store, 0)
    away.exchange()
    beat_all(clock, [there], LEASE)
    there.renew()
    store.tick()
    assert status(store, job) == READY


def test_the_lost_are_found_by_another_orchestrators_exchange(store: Store, clock: FakeClock) -> None:
    job, away = add(store), Crew(store)
    there = Crew(store)
    away.exchange()
    beat_all(clock, [there], LEASE)
    there.renew()
    assert [each.job_id for each in there.exchange().claims] == [job]
