"""What the panes and sheets say of a store, at a moment that the test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.claim import Done, Snoozed
from rota.core.job import NewJob
from rota.core.slot import LOAD, REFUSE, History, RestartPolicy
from rota.core.source import Declared
from rota.core.times import HOUR, MINUTE, SECOND
from rota.live.throughput import Throughput
from rota.process.host import host_id
from rota.store.claims.exchange import Report
from rota.store.sources import Found
from rota.store.workers.death import Death
from rota.store.workers.slots import move, remember
from rota.top import pages, store_calls, tables
from rota.top.store_calls import FAILED, NEWEST, read_page, read_snapshot
from rota.top.tables import GAP, Column, ago, bars, count, rate, span, widths
from tests.support.clock import FakeClock
from tests.support.stores import STORES, make_store
from tests.support.stores import rows as sql
from tests.support.work import Crew, add, add_many, claim, fail, finish, register

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from rota.store.store import Store
    from rota.top.tables import Row


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    with make_store(request.param, tmp_path, clock) as opened:
        yield opened


def texts(found: Iterable[Row]) -> list[list[str]]:
    return [[text.strip() for text, _ in row.cells] for row in found]


def queue(store: Store, name: str = "default") -> dict[str, str]:
    """The line of one queue, by its heads, and `about` its state."""
    found = read_snapshot(store)
    heads = [column.head or "about" for column in tables.QUEUES]
    throughput = Throughput()
    for event in store.events.after("0"):
        throughput.note(event)
    (line,) = [row for row in texts(tables.queue_rows(found, throughput, found.now)) if row[0] == name]
    return dict(zip(heads, line, strict=True))


def slots(store: Store) -> dict[str, list[str]]:
    found = read_snapshot(store)
    return {line[0]: line[1:6] for line in texts(tables.slot_rows(found, found.now))}


def test_a_queue_tells_how_much_waits_how_fast_it_goes_and_how_long_it_will_take(
    store: Store, clock: FakeClock
) -> None:
    register(store)
    for job in add_many(store, 15):
        taken = claim(store, job)
        clock.advance(2 * SECOND)
        store.claims.settle(taken, Done())
    waiting = add_many(store, 5)
    add(store, after=[waiting[0]])
    clock.advance(3 * SECOND)
    told = queue(store)
    assert (told["READY"], told["ACTIVE"], told["WAITING"], told["FAILED"]) == ("5", "0", "1", "0")
    assert (told["OLDEST"], told["STATE"]) == ("3s", "open")
    assert told["RATE"] == "0.5/s"
    assert told["ETA"] == "6s"
    assert told["LATELY"].strip("█ ") == ""


def test_what_a_source_had_done_counts_and_its_pace_says_how_long_the_rest_takes(
    store: Store, clock: FakeClock
) -> None:
    store.sources.declare([Declared("files", "tag", "tag", 30 * SECOND, 100, 1000, 3)])
    crew = Crew(store, queue="tag")
    (filler,) = crew.exchange().claims
    keys = [Found(str(n), "1") for n in range(40)]
    store.sources.fill("files", (filler.job_id, filler.token), keys, NewJob("tag", "tag", "tag"), True)
    crew.exchange([(filler.job_id, filler.token, Snoozed(HOUR))], room=0)
    claims = crew.exchange(room=30).claims
    crew.exchange([(claim.job_id, claim.token, Done("1")) for claim in claims], room=0)
    clock.advance(4 * SECOND)
    told = queue(store, "tag")
    assert (told["READY"], told["DONE"], told["RATE"], told["ETA"]) == ("10", "30", "3.0/s", "3s")


def test_a_queue_that_lets_nothing_through_says_why(store: Store) -> None:
    store.queues.set("default", breaker=2, max_depth=4)
    add_many(store, 2)
    assert queue(store)["STATE"] == "open"
    add_many(store, 2)
    assert (queue(store)["STATE"], queue(store)["about"]) == ("full", "at most 4 may wait")
    fail(store, 1, "no route", again=False)
    assert (queue(store)["STATE"], queue(store)["about"]) == ("open", "1 of 2 failures")
    store.queues.pause("default", "model is replaced")
    assert (queue(store)["STATE"], queue(store)["about"]) == ("paused", f"by {store.actor}: model is replaced")
    store.queues.resume("default")
    store.queues.pause()
    assert queue(store)["STATE"] == "paused"
    store.queues.resume()
    for job in (2, 3):  # to resume forgets the failures before
        fail(store, job, "no route", again=False)
    assert queue(store)["STATE"] == "breaker"
    assert "no route" in queue(store)["about"]


def test_rotas_own_queues_and_slots_are_not_shown(store: Store) -> None:
    store.slots.take("main", host_id(), {"-": 1, "tag": 1})
    found = read_snapshot(store)
    assert [row.key for row in tables.slot_rows(found, found.now)] == ["worker:tag:0"]
    assert list(tables.queue_rows(found, Throughput(), found.now)) == []


def test_a_slot_says_what_it_does_and_for_how_long(store: Store, clock: FakeClock) -> None:
    store.slots.take("main", host_id(), {"default": 4})
    assert slots(store)["worker:default:0"] == ["empty", "", "", "nobody fills it", ""]
    crew = Crew(store, workers=2)
    for n, worker in enumerate(crew.workers):
        store.orchestrators.came_up(worker, f"worker:default:{n}")
    _, _, third, fourth = store.slots.all()
    with store.write() as tx:
        remember(tx, "worker:default:2", History((store.now(),), 3))
        move(tx, third, REFUSE, "backoff", start_at=store.now() + 4 * SECOND)
        remember(tx, "worker:default:3", History((), 7, store.now(), "died 6 times in 5m"))
        move(tx, fourth, LOAD, "failed")
    job = add(store, "Tag a.wav")
    crew.exchange()
    clock.advance(2 * SECOND)
    assert slots(store)["worker:default:2"] == ["backoff", "", "", "starts again in 3s", "3 (1 now)"]
    assert slots(store)["worker:default:3"] == ["failed", "2s", "", "died 6 times in 5m; x resets it", "7"]
    clock.advance(63 * SECOND)
    told = slots(store)
    (busy,) = [line for line in (told["worker:default:0"], told["worker:default:1"]) if line[0] == "busy"]
    assert busy == ["busy", "1m5s", str(job), "Tag a.wav", ""]
    assert sorted(line[0] for line in told.values()) == ["backoff", "busy", "failed", "idle"]


def test_a_worker_that_nobody_sees_is_among_them_and_late_when_it_missed_a_beat(store: Store, clock: FakeClock) -> None:
    worker = register(store, "night shift", every=10 * SECOND)
    job = add(store, "Write")
    claim(store, job, worker, HOUR)
    clock.advance(8 * SECOND)
    assert slots(store)["night shift"] == ["busy", "8s", str(job), "Write", ""]
    clock.advance(8 * SECOND)
    assert slots(store)["night shift"][0] == "late"


def test_jobs_in_hand_are_told_longest_first_with_who_has_them(store: Store, clock: FakeClock) -> None:
    first, second = add(store, "one"), add(store, "two", queue="other")
    fail(store, second)
    clock.advance(HOUR)
    worker = register(store)
    claim(store, first, worker, HOUR)
    clock.advance(MINUTE)
    store.tick()
    claim(store, second, worker, HOUR)
    found = read_snapshot(store)
    told = texts(tables.held_rows(found, found.now + SECOND))
    assert told == [
        [str(first), "1m1s", "1/3", "one", worker, "default"],
        [str(second), "1s", "2/3", "two", worker, "other"],
    ]


def test_no_cell_holds_what_could_steer_a_terminal(store: Store) -> None:
    worker = register(store, "\x1b[2Jloop")
    claim(store, add(store, "Tag\x1b[2J\x07"), worker)
    fail(store, add(store, "\x1b]0;owned\x07"), "\x9b31mred", again=False)
    found = read_snapshot(store, FAILED)
    every = [
        *tables.held_rows(found, found.now),
        *tables.listed_rows(found, found.now),
        *tables.slot_rows(found, found.now),
    ]
    shown = [cell for row in every for cell, _ in row.cells]
    assert "Tag\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}" in shown
    assert all(cell.isprintable() for cell in shown), shown


def test_of_a_window_only_what_is_begun_is_in_hand(store: Store) -> None:
    crew = Crew(store, workers=2)
    ids = add_many(store, 8)
    for claimed in crew.exchange(room=4).claims:
        assert claimed.job_id in ids
    found = read_snapshot(store)
    assert len(found.held) == 8
    firsts = {worker: min(job.id for job in found.held if job.worker_id == worker) for worker in crew.workers}
    assert {row.job for row in tables.held_rows(found, found.now)} == set(firsts.values())
    assert {row.key: row.job for row in tables.slot_rows(found, found.now)} == firsts


def test_all_that_a_worker_of_coroutines_or_a_loop_holds_is_in_hand(store: Store) -> None:
    crew = Crew(store)
    sql(store, "UPDATE worker SET concurrency = 3")
    add_many(store, 4)
    crew.exchange(room=4)
    loop = register(store, "loop", queue="other")
    for job in add_many(store, 2, queue="other"):
        claim(store, job, loop)
    found = read_snapshot(store)
    assert [row.job for row in tables.held_rows(found, found.now)] == [1, 2, 3, 5, 6]
    assert "job 0 and 2 more" in [line[4] for line in texts(tables.slot_rows(found, found.now))]


def test_failed_and_newest_jobs_are_listed_newest_first(store: Store, clock: FakeClock) -> None:
    good, bad = add(store, "good"), add(store, "bad")
    finish(store, good)
    fail(store, bad, "no such file", again=False)
    clock.advance(5 * SECOND)
    failed, newest = read_snapshot(store, FAILED), read_snapshot(store, NEWEST)
    assert texts(tables.listed_rows(failed, failed.now)) == [
        [str(bad), "failed", "5s", "1/3", "bad: no such file", "default"]
    ]
    assert [row.job for row in tables.listed_rows(newest, newest.now)] == [bad, good]


def test_deaths_are_told_with_the_slot_the_job_and_the_reason(store: Store, clock: FakeClock) -> None:
    store.slots.take("main", host_id(), {"default": 1})
    crew = Crew(store)
    death = Death(crew.workers[0], "worker:default:0", "signaled", "ended by signal 9", signal=9)
    store.orchestrators.record_death(death, Report(), RestartPolicy())
    clock.advance(2 * MINUTE)
    found = read_snapshot(store)
    (row,) = tables.death_rows(found, found.now)
    assert texts([row]) == [["2m", "worker:default:0", "signaled", "", "ended by signal 9"]]
    assert (row.key, row.slot) == (crew.workers[0], "worker:default:0")
    text = "\n".join("".join(cell for cell, _ in line) for line in pages.death_lines(found.deaths[0][1], found.now, 80))
    assert "ended by signal 9" in text and "2m ago" in text and "signal    9" in text


def test_what_needs_attention_names_what_a_key_may_act_on(store: Store) -> None:
    store.slots.take("main", host_id(), {"tag": 1})
    with store.write() as tx:
        remember(tx, "worker:tag:0", History((), 6, store.now(), "died 6 times in 5m"))
    store.queues.set("default", breaker=1)
    fail(store, add(store), "no route", again=False)
    found = read_snapshot(store)
    slot, queue, failures = tables.attention_rows(found, found.now + SECOND)
    assert (slot.slot, slot.queue, slot.job) == ("worker:tag:0", "tag", None)
    assert (queue.slot, queue.queue, queue.job) == (None, "default", None)
    assert (failures.slot, failures.queue, failures.job) == (None, "default", None) and failures.key != queue.key
    assert texts([slot]) == [["slot", "worker:tag:0", "failed: it died 6 times in 5m", "1s"]]
    assert texts([failures]) == [["failures", "default", "1 job failed: no route", "1s"]]


def test_where_a_queue_is_scaled_is_clear_or_it_is_said_why_not(store: Store) -> None:
    assert store_calls.scalable(read_snapshot(store), "tag", None) == []
    assert "no crew is running" in store_calls.not_scalable("tag", [])
    store.orchestrators.join()
    assert store_calls.scalable(read_snapshot(store), "tag", None) == [(("main", host_id()), 0)]
    store.slots.take("main", host_id(), {"tag": 2})
    assert store_calls.scalable(read_snapshot(store), "tag", None) == [(("main", host_id()), 2)]
    store.slots.take("night", host_id(), {"tag": 1})
    both = store_calls.scalable(read_snapshot(store), "tag", None)
    assert [place for place, _ in both] == [("main", host_id()), ("night", host_id())]
    assert "several crews could serve tag" in store_calls.not_scalable("tag", both)
    assert store_calls.scalable(read_snapshot(store), "tag", "worker:tag:2") == [(("night", host_id()), 1)]


def test_a_filter_matches_any_cell_in_any_case(store: Store) -> None:
    add(store, queue="Tag")
    add(store, queue="library")
    found = read_snapshot(store)
    shown = tables.matching(tables.queue_rows(found, Throughput(), found.now), "tAG")
    assert [row.key for row in shown] == ["Tag"]
    assert len(tables.matching(tables.queue_rows(found, Throughput(), found.now), "")) == 2


def test_a_page_tells_of_a_job_all_that_there_is(store: Store, clock: FakeClock) -> None:
    parent = add(store, "parent")
    id = add(store, "child", parent=parent, payload={"path": "a.wav", "tags": ["x"] * 3}, key="k", priority=4)
    fail(store, id, "first\x1b[2J failure")
    clock.advance(HOUR)
    store.tick()
    store.jobs.done(id, {"ok": True}, force=True)
    clock.advance(MINUTE)
    told = read_page(store, id)
    lines = ["".join(cell for cell, _ in line) for line in pages.job_lines(told, told.now, 60)]
    text = "\n".join(lines)
    assert lines[0].startswith(f"Job {id} is done")
    for part in ("status    done", f"parent    {parent}", "key       k", "priority  4", "1m ago", '  "path": "a.wav",'):
        assert part in text, part
    assert "try 1" in text and "first�[2J failure" in text and '"ok": true' in text
    assert "\x1b" not in text


def test_text_is_folded_to_the_width_and_too_much_of_it_is_cut(store: Store) -> None:
    id = add(store, payload={"n": list(range(3000)), "long": "word " * 100})
    told = read_page(store, id)
    lines = ["".join(cell for cell, _ in line) for line in pages.job_lines(told, told.now, 50)]
    assert max(map(len, lines)) <= 51
    assert lines[-1].endswith("more lines")


def test_the_head_says_that_the_past_is_shown_before_anything_else(store: Store) -> None:
    found = read_snapshot(store)
    text = "".join(cell for cell, _ in pages.head_line(found, "the store is away", "", 80))
    assert "✖ the store is away" in text and "healthy" not in text
    assert "looking" in "".join(cell for cell, _ in pages.head_line(None, None, "", 80))
    for width in (80, 200):
        line = "".join(cell for cell, _ in pages.head_line(found, None, "filter: tag", width))
        assert "filter: tag" in line and len(line) == width - 1
    assert line.endswith(found.where)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9999, "9999"),
        (10_000, "10.0k"),
        (65_536, "65.5k"),
        (123_456, "123k"),
        (1_250_000, "1.2M"),
        (5 * 10**9, "5.0G"),
    ],
)
def test_a_count_takes_at_most_five_places(number: int, text: str) -> None:
    assert count(number) == text


@given(st.integers(0, 10**11))
def test_no_count_is_longer_or_fails(number: int) -> None:
    assert len(count(number)) <= 5


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (0, "–"),
        (0.01, "0.6/m"),
        (0.0949, "5.7/m"),
        (0.1, "0.1/s"),
        (9.94, "9.9/s"),
        (12.4, "12/s"),
        (12_345.0, "12.3k/s"),
    ],
)
def test_a_rate_is_per_second_or_per_minute_when_that_is_little(per_second: float, text: str) -> None:
    assert rate(per_second) == text


def test_a_duration_is_told_to_the_second_and_never_below_zero() -> None:
    assert span(MINUTE + 5 * SECOND + 999_999) == "1m5s"
    assert span(-5 * SECOND) == "0s"
    assert ago(None, HOUR) == ""
    assert ago(SECOND, 2 * HOUR) == "1h59m"


def test_a_chart_reaches_its_top_at_the_largest_value_and_shows_whatever_is_not_zero() -> None:
    assert bars([0, 1, 500, 1000]) == [" ▁▄█"]
    assert bars([0, 1, 500, 1000], 2) == ["   █", " ▁██"]
    assert bars([0, 0, 0], 2) == ["   ", "   "]
    assert bars([]) == [""]


@given(st.lists(st.integers(0, 10**9), max_size=60), st.integers(1, 5))
def test_a_chart_has_its_height_and_a_place_for_every_value(values: list[int], height: int) -> None:
    lines = bars(values, height)
    assert len(lines) == height
    assert {len(line) for line in lines} == {len(values)}
    assert [value > 0 for value in values] == [place != " " for place in lines[-1]]


columns = st.lists(
    st.builds(
        Column, st.just("X"), st.integers(1, 20), st.integers(0, 40), st.booleans(), st.booleans(), st.integers(0, 150)
    ),
    min_size=1,
    max_size=8,
)


@given(columns, st.lists(st.integers(0, 100), min_size=8, max_size=8), st.integers(20, 200))
def test_columns_never_take_more_room_than_there_is_and_the_first_stays(
    shown: list[Column], needed: list[int], room: int
) -> None:
    first = shown[0].replace(from_width=0)
    found = widths([first, *shown[1:]], needed[: len(shown)], room)
    taken = [width for width in found if width]
    assert sum(taken) + GAP * (len(taken) - 1) <= room
    assert found[0] >= first.least
    for column, width in zip([first, *shown[1:]], found, strict=True):
        assert not width or (width >= column.least and room >= column.from_width)


def test_the_column_that_grows_takes_what_is_left() -> None:
    shown = (Column("A", 4, 10), Column("B", 6, grows=True), Column("C", 5), Column("D", 5, from_width=60))
    assert widths(shown, [8, 99, 5, 5], 50) == [8, 50 - 8 - 5 - 2 * GAP, 5, 0]
    assert widths(shown, [8, 99, 5, 5], 60) == [8, 60 - 8 - 5 - 5 - 3 * GAP, 5, 5]
    assert widths(shown, [8, 99, 5, 5], 15) == [7, 6, 0, 0]
