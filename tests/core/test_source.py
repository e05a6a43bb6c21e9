"""Sources: what may be declared, what a frame may say, and for how long a key that comes again is held back."""

from __future__ import annotations

from typing import Any

import pytest

from rota.core.errors import BadInput
from rota.core.source import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MEMORY_TIME,
    Declared,
    checked,
    from_hello,
    held_until,
    is_internal,
    key_hash,
    vectorizers,
)
from rota.core.times import SECOND

FILES = Declared("files", "tag", "tag", 30 * SECOND, 100, 1000, 3)


def test_a_key_is_held_back_only_after_its_repeats_and_then_longer_and_longer() -> None:
    assert [held_until(successes, 7, 3) for successes in range(4)] == [None] * 4
    assert held_until(4, 7, 3) == 7 + FIRST_PAUSE
    assert held_until(5, 7, 3) == 7 + 2 * FIRST_PAUSE
    assert held_until(6, 7, 3) == 7 + 4 * FIRST_PAUSE
    assert held_until(10**9, 7, 3) == 7 + LONGEST_PAUSE


def test_a_key_may_come_again_for_ever_where_that_is_wanted() -> None:
    assert held_until(10**9, 7, None) is None
    assert held_until(1, 7, 0) == 7 + FIRST_PAUSE


def test_the_longest_pause_is_over_before_the_key_is_forgotten() -> None:
    assert LONGEST_PAUSE < MEMORY_TIME


def test_a_hash_fits_a_column_of_64_bits_and_tells_keys_apart() -> None:
    hashes = {key_hash(str(number)) for number in range(10_000)}
    assert len(hashes) == 10_000
    assert all(-(1 << 63) <= number < 1 << 63 for number in hashes)
    assert key_hash("\udcff") != key_hash("a")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "two words"}, "is not a name for a source"),
        ({"name": "~files"}, "is not a name for a source"),
        ({"queue": ""}, "is not a queue name"),
        ({"task": ""}, "needs task="),
        ({"every": 0}, "every must be between"),
        ({"low": 0}, "low must be from 1"),
        ({"batch": 10**9}, "batch must be from 1"),
        ({"repeats": -1}, "repeats must be 0 or more"),
    ],
)
def test_a_source_that_cannot_work_is_refused_with_what_would_be_right(change: dict[str, Any], told: str) -> None:
    assert checked(FILES) == FILES
    with pytest.raises(BadInput, match=told):
        checked(FILES.replace(**change))


def test_a_hello_frame_declares_sources() -> None:
    body = {"sources": [{name: getattr(FILES, name) for name in Declared._fields}]}
    assert from_hello(body) == [FILES]


@pytest.mark.parametrize(
    "told",
    [
        None,
        7,
        {},
        ["files"],
        [{"name": "files"}],
        [{**{name: getattr(FILES, name) for name in Declared._fields}, "low": True}],
        [{**{name: getattr(FILES, name) for name in Declared._fields}, "every": -1}],
        [{**{name: getattr(FILES, name) for name in Declared._fields}, "repeats": "3"}],
    ],
)
def test_rubbish_in_a_hello_frame_declares_nothing(told: object) -> None:
    assert from_hello({"sources": told}) == []


def test_no_queue_of_a_user_is_internal() -> None:
    assert is_internal("~tag")
    assert not is_internal("tag")


@pytest.mark.parametrize("told", [None, [], "files", {"files": -1}, {"files": 2**31}, {"files": True}, {"files": ""}])
def test_a_vectorizer_that_makes_no_sense_is_left_out_and_never_raises(told: Any) -> None:
    assert vectorizers({"vectorizers": told}) == {}


def test_a_vectorizer_goes_by_its_id_or_by_its_table() -> None:
    assert vectorizers({"vectorizers": {"a": 7, "b": "note", "c": None}}) == {"a": 7, "b": "note"}
