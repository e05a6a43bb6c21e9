"""What metrics count: every run and every death once, whenever anybody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from rota.core.claim import Done, Failed, Snoozed
from rota.core.source import Declared
from rota.core.times import HOUR, MILLISECOND, SECOND
from rota.core.worker import Dead
from rota.store.engine.transaction import BOUNDS, PICKUP, RUN, bucket
from rota.store.jobs.enqueue import NewJob
from rota.store.metrics import DEATH
from rota.store.sources import Found
from tests.support.stores import again, rows
from tests.support.work import Crew, add, add_many, claim, finish

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def counted(store: Store, name: str) -> dict[tuple[str, str, int], tuple[int, int]]:
    found = [metric for metric in store.metrics.counted() if metric.name == name]
    return {(metric.queue, metric.label, metric.bucket): (metric.n, metric.total) for metric in found}


def test_runs_are_counted_by_queue_verb_and_duration(store: Store, clock: FakeClock) -> None:
    first, second = add(store, queue="tag"), add(store, queue="scan")
    held = claim(store, first)
    clock.advance(7 * MILLISECOND)
    store.claims.settle(held, Done())
    other = claim(store, second)
    clock.advance(2 * HOUR)
    store.claims.settle(other, Failed("x"))
    took = BOUNDS.index(10 * MILLISECOND)
    assert counted(store, RUN) == {
        ("tag", "finish", took): (1, 7 * MILLISECOND),
        ("scan", "fail", len(BOUNDS)): (1, 2 * HOUR),
    }
    assert counted(store, PICKUP) == {("tag", "", 0): (1, 0), ("scan", "", took): (1, 7 * MILLISECOND)}


def test_a_claim_is_counted_when_it_ends_and_only_once(store: Store, clock: FakeClock) -> None:
    add_many(store, 5)
    long = claim(store, 1)
    for job in (2, 3):
        finish(store, job)
    assert sum(n for n, _ in counted(store, RUN).values()) == 2
    finish(store, 4)
    assert sum(n for n, _ in counted(store, RUN).values()) == 3
    clock.advance(SECOND)
    store.claims.settle(long, Done())
    for _ in range(3):
        assert sum(n for n, _ in counted(store, RUN).values()) == 4, "and only once"


def test_a_source_job_that_is_gone_was_a_run_that_finished(store: Store, clock: FakeClock) -> None:
    store.sources.declare([Declared("files", "tag", "tag", SECOND, 2, 5, 3)])
    crew = Crew(store, queue="tag")
    (filler,) = crew.exchange().claims
    found = [Found("good", None), Found("bad", None)]
    store.sources.fill("files", (filler.job_id, filler.token), found, NewJob("tag", "tag", "tag", max_attempts=1), True)
    good, bad = crew.exchange([(filler.job_id, filler.token, Snoozed(HOUR))], room=2).claims
    clock.advance(7 * MILLISECOND)
    crew.exchange([(good.job_id, good.token, Done()), (bad.job_id, bad.token, Failed("x", again=False))], room=0)
    assert [job.status for job in store.jobs.list()] == ["failed"]
    took = BOUNDS.index(10 * MILLISECOND)
    assert counted(store, RUN) == {
        ("tag", "finish", took): (1, 7 * MILLISECOND),
        ("tag", "fail", took): (1, 7 * MILLISECOND),
    }
    assert counted(store, PICKUP) == {("tag", "", 0): (2, 0)}


def test_a_look_reads_no_job_and_no_run(store: Store) -> None:
    """However many there are: what a look costs does not depend on them."""
    for job in add_many(store, 3):
        finish(store, job)
    before = counted(store, RUN)
    rows(store, "DELETE FROM run")
    rows(store, "DELETE FROM job")
    assert counted(store, RUN) == before and sum(n for n, _ in before.values()) == 3


def test_two_who_count_at_once_count_once(store: Store) -> None:
    add_many(store, 10)
    with again(store) as other:
        for job in range(1, 11):
            finish(store, job)
            if job % 3 == 0:
                assert counted(other, RUN) == counted(store, RUN)
        assert sum(n for n, _ in counted(other, RUN).values()) == 10


def test_deaths_that_somebody_else_counts_meanwhile_are_counted_once(store: Store, clock: FakeClock) -> None:
    crew = Crew(store, 1)
    store.orchestrators.mark_dead(crew.workers[0], Dead("signaled", "x"))
    clock.advance(2 * SECOND)
    with again(store) as other:
        metrics = store.metrics
        write = metrics._write

        def late(old: int, new: int, counts: list[tuple[Any, ...]]) -> None:
            other.metrics.counted()
            write(old, new, counts)

        metrics._write = late  # type: ignore[method-assign]
        metrics.counted()
    assert counted(store, DEATH) == {("", "signaled", 0): (1, 0)}


def test_pruning_takes_no_count_away_and_a_run_before_the_first_look_counts(store: Store, clock: FakeClock) -> None:
    for job in add_many(store, 3):
        finish(store, job)
    before = counted(store, RUN)
    clock.advance(HOUR)
    store.history.prune(older=SECOND)
    assert counted(store, RUN) == before and sum(n for n, _ in before.values()) == 3


def test_deaths_are_counted_by_reason_once_they_are_settled(store: Store, clock: FakeClock) -> None:
    crew = Crew(store, 3)
    store.orchestrators.mark_dead(crew.workers[0], Dead("signaled", "x"))
    clock.advance(2 * SECOND)
    store.orchestrators.mark_dead(crew.workers[1], Dead("exited", "x"))
    assert counted(store, DEATH) == {("", "signaled", 0): (1, 0)}
    clock.advance(2 * SECOND)
    for _ in range(2):
        assert counted(store, DEATH) == {("", "signaled", 0): (1, 0), ("", "exited", 0): (1, 0)}


def test_what_was_handed_out_in_an_answer_that_was_lost_was_no_run(store: Store) -> None:
    add_many(store, 3)
    crew = Crew(store)
    crew.exchange(room=3)
    crew.exchange(holdings=[], room=0)
    assert counted(store, RUN) == {}
    assert [job.attempts for job in store.jobs.list()] == [0, 0, 0]


def test_the_last_runs_are_averaged_by_queue(store: Store, clock: FakeClock) -> None:
    for queue, took in (("tag", 4), ("tag", 2), ("scan", 9)):
        held = claim(store, add(store, queue=queue))
        clock.advance(took * SECOND)
        store.claims.settle(held, Done())
    assert store.metrics.took() == {"tag": (2, 6 * SECOND), "scan": (1, 9 * SECOND)}


@given(st.integers(0, 3 * HOUR))
def test_a_bucket_is_the_first_bound_that_is_not_exceeded(duration: int) -> None:
    expected = next((place for place, bound in enumerate(BOUNDS) if duration <= bound), len(BOUNDS))
    assert bucket(duration) == expected


def test_a_death_is_counted_as_soon_as_it_is_settled(store: Store, clock: FakeClock) -> None:
    crew = Crew(store, 1)
    store.orchestrators.mark_dead(crew.workers[0], Dead("signaled", "x"))
    clock.advance(SECOND)
    assert counted(store, DEATH) == {("", "signaled", 0): (1, 0)}
