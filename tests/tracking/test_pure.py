"""The decisions of a tracker, without a database."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.times import MILLISECOND, MINUTE, SECOND
from rota.tracking.outbox import Delta, Progress, Sent, arrived
from rota.tracking.sender import ABSENT, FORBIDDEN, NEEDED, READY, HeartbeatBackoff, Right, judge

EVERY = 100 * MILLISECOND

counts = st.integers(0, 9)
messages = st.none() | st.sampled_from(["a", "b"])
progresses = st.builds(Progress, st.integers(1, 3), st.none() | counts, counts, counts, messages)
deltas = st.builds(
    lambda successes, errors, message, progress: Delta(successes, errors, message).plus(Delta(progress=(progress,))),
    counts,
    counts,
    messages,
    progresses,
)


@given(st.lists(deltas), st.integers(0, 10))
def test_putting_back_what_was_taken_changes_nothing(given_deltas: list[Delta], at: int) -> None:
    whole = older = newer = Delta()
    for delta in given_deltas:
        whole = whole.plus(delta)
    for delta in given_deltas[:at]:
        older = older.plus(delta)
    for delta in given_deltas[at:]:
        newer = newer.plus(delta)

    assert older.plus(newer) == whole


def test_the_newest_message_counts_and_vectorizers_come_in_order() -> None:
    older = Delta(1, 1, "old", (Progress(2, successes=1),))
    newer = Delta(2, 0, None, (Progress(2, beside=3, errors=1, message="e"), Progress(1, successes=0)))

    assert older.plus(newer) == Delta(3, 1, "old", (Progress(1, 0), Progress(2, 1, 3, 1, "e")))
    assert newer.plus(older).message == "old"


def test_what_was_done_and_what_failed_for_one_vectorizer_adds_up() -> None:
    older = Progress(2, successes=1, beside=1, errors=2, message="old")
    newer = Progress(2, successes=4, beside=3, errors=1, message="new")

    assert older.plus(newer) == Progress(2, 5, 4, 3, "new")


@pytest.mark.parametrize(
    ("before", "count", "expected"),
    [(4, 4, False), (4, 5, True), (None, None, False), (None, 1, True), (4, None, True)],
    ids=["not counted", "counted", "not registered", "registered", "pruned"],
)
def test_the_beat_count_tells_whether_a_delta_arrived(before: int | None, count: int | None, expected: bool) -> None:
    counts: dict[object, int] = {} if count is None else {"worker": count}
    assert arrived([Sent("worker", before, Delta(1))], counts) is expected


def test_one_worker_that_is_still_there_tells_for_all_that_went_along() -> None:
    sent = [Sent("pruned", 7, Delta(1)), Sent("here", 4, Delta(2)), Sent("new", None, Delta(3))]
    assert not arrived(sent, {"here": 4})
    assert arrived(sent, {"here": 5, "new": 1})
    assert arrived(sent, {})


def test_the_third_failure_in_a_row_is_the_loss() -> None:
    backoff = HeartbeatBackoff(EVERY)
    assert [backoff.lost, backoff.failed().lost, backoff.failed().failed().lost] == [False] * 3
    assert backoff.failed().failed().failed().lost
    assert not backoff.failed().failed().succeeded().failed().lost


def test_a_beat_comes_each_interval_until_the_loss_and_then_tries_become_rarer_up_to_a_minute() -> None:
    delays = [HeartbeatBackoff(EVERY, failures).delay(0.999999) for failures in range(12)]

    assert delays[:3] == [EVERY] * 3
    assert delays[3:9] == pytest.approx([SECOND << n for n in range(6)], rel=1e-5)
    assert delays[9:] == pytest.approx([MINUTE] * 3, rel=1e-5)


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_tries_are_never_closer_than_the_interval_and_never_further_than_a_minute(failures: int, chance: float) -> None:
    assert EVERY <= HeartbeatBackoff(EVERY, failures).delay(chance) <= MINUTE
    assert HeartbeatBackoff(5 * MINUTE, failures).delay(chance) == 5 * MINUTE
    assert MINUTE // 2 <= HeartbeatBackoff(EVERY).until_next_check(chance) <= MINUTE


def rights(denied: str = "", without: str = "") -> list[Right]:
    found = [Right("schema", "ai", "USAGE", denied != "ai", "worker")]
    for name in NEEDED:
        if name == without:
            continue
        if name.startswith("ai._"):
            found.append(Right("function", f"{name}(uuid)", "EXECUTE", denied != name, "worker"))
        else:
            short = name.removeprefix("ai.")
            found += [Right("table", short, each, denied != name, "worker") for each in ("SELECT", "UPDATE")]
    return found


@pytest.mark.parametrize("missing", NEEDED)
def test_a_missing_table_or_function_means_absent_and_is_named(missing: str) -> None:
    found = judge(rights(denied="ai", without=missing))
    assert found.state == ABSENT
    assert f" {missing};" in found.reason


@pytest.mark.parametrize(
    ("denied", "grant"),
    [
        ("ai", "GRANT USAGE ON SCHEMA ai TO worker"),
        ("ai.vectorizer_worker_process", "GRANT SELECT, UPDATE ON ai.vectorizer_worker_process TO worker"),
        ("ai._worker_start", "GRANT EXECUTE ON FUNCTION ai._worker_start(uuid) TO worker"),
    ],
)
def test_a_missing_right_means_forbidden_and_the_grant_is_named(denied: str, grant: str) -> None:
    found = judge(rights(denied=denied))
    assert (found.state, found.reason) == (FORBIDDEN, f"rights are missing: {grant}")


def test_everything_there_and_allowed_means_ready() -> None:
    assert judge(rights()).state == READY
    assert judge([]).state == ABSENT
