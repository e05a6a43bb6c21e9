"""Reports of any program on the pipe become outcomes; none of them raises."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.core.claim import Done, Failed, Released, Snoozed
from rota.core.frames import messages
from rota.core.frames.codec import Decoder
from rota.core.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Outcome

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "outcome": st.sampled_from(["done", "failed", "snoozed", "released", "?"]) | JSON,
        "result": JSON,
        "error": JSON,
        "again": JSON,
        "delay": JSON,
        "note": JSON,
        "tokens": JSON,
        "recover_for_s": JSON,
    },
)


@given(BODIES)
@example({"recover_for_s": 10**400})
@example({"recover_for_s": -(10**400)})
@example({"recover_for_s": float("nan")})
@example({"outcome": "failed", "error": "\ud800"})
def test_nothing_that_json_can_hold_raises(body: dict[str, Any]) -> None:
    assert isinstance(messages.outcome(body), Done | Failed | Snoozed | Released)
    assert all(type(token) in (int, bool) for token in messages.tokens(body))
    asked = messages.seconds(body)
    assert asked is None or 0 <= asked <= 1e6


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ({"outcome": "done", "result": '{"a":1}'}, Done('{"a":1}')),
        ({"outcome": "done"}, Done(None)),
        ({"outcome": "done", "result": "NaN"}, Failed("the result is not JSON: NaN is not JSON", again=False)),
        ({"outcome": "done", "result": 5}, Failed("the result is not text of at most 262,144 bytes", again=False)),
        ({"outcome": "failed", "error": "no file", "again": False}, Failed("no file", again=False)),
        ({"outcome": "failed"}, Failed("failed, and did not say why")),
        ({"outcome": "snoozed", "delay": 5, "note": "x"}, Snoozed(5, "x")),
        ({"outcome": "snoozed", "delay": 10**30}, Snoozed(messages.LONGEST_SNOOZE)),
        ({"outcome": "released", "note": 7}, Released(None)),
        ({}, Failed("reported no outcome that rota knows: None")),
    ],
    ids=repr,
)
def test_each_report_is_taken_for_what_it_is(body: dict[str, Any], outcome: object) -> None:
    assert messages.outcome(body) == outcome


@pytest.mark.parametrize("text", ["not json", "", "Infinity", "1e400", r'"\ud800"', "[" * 61 + "]" * 61])
def test_a_result_or_checkpoint_that_some_reader_of_json_does_not_take_is_none(text: str) -> None:
    outcome = messages.outcome({"outcome": "done", "result": text})
    assert isinstance(outcome, Failed) and outcome.error.startswith("the result is not JSON: ") and not outcome.again
    assert messages.checkpoint({"checkpoint": text}) is None


@pytest.mark.parametrize("outcome", [Released, partial(Released, reason="kind"), partial(Snoozed, SECOND)], ids=repr)
def test_a_note_is_cut_to_the_longest_before_it_is_sent_and_may_be_left_out(outcome: Callable[..., Outcome]) -> None:
    for note in ("brief", "x" * (messages.LONGEST_NOTE + 1)):
        (frame,) = Decoder().feed(messages.done_frame(1, 2, outcome(note=note)))
        assert frame.body["note"] == note[: messages.LONGEST_NOTE]
    (frame,) = Decoder().feed(messages.done_frame(1, 2, outcome()))
    assert frame.body["note"] is None


def test_kinds_are_those_that_a_worker_names_or_all() -> None:
    named, every = messages.kinds(["tag"]), messages.kinds(True)
    assert "tag" in named and "other" not in named and "other" in every
    assert "tag" not in messages.kinds(None)


@pytest.mark.parametrize("told", [None, 5, "{", ["a"]])
def test_a_checkpoint_that_is_not_json_text_is_ignored(told: object) -> None:
    assert messages.checkpoint({"checkpoint": told}) is None
    assert messages.checkpoint({"checkpoint": "[1]"}) == "[1]"
