"""Outcomes that any program may have written are decoded without an error, and arrive as they were encoded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.core.claim import Done, Failed, Released, Returned, Snoozed
from rota.core.frames import messages, outcomes
from rota.core.frames.codec import Decoder
from rota.core.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Outcome

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "outcome": st.sampled_from(["done", "failed", "snoozed", "released", "returned", "?"]) | JSON,
        "result": JSON,
        "error": JSON,
        "again": JSON,
        "reason": JSON,
        "delay": JSON,
        "put_off": JSON,
        "note": JSON,
    },
)


@given(DOCUMENTS)
@example({"outcome": "failed", "error": "\ud800"})
@example({"outcome": "failed", "put_off": 10**400})
@example({"outcome": "failed", "put_off": -1})
def test_no_document_raises_and_what_it_decodes_to_survives_the_codec(document: dict[str, Any]) -> None:
    outcome = outcomes.decode_reported(document)
    assert isinstance(outcome, Done | Failed | Snoozed | Released | Returned)
    assert outcomes.decode_reported(outcomes.encode(outcome)) == outcome


@pytest.mark.parametrize(
    "outcome",
    [
        Done(),
        Done("null"),
        Done('{"a":1}'),
        Failed("e", again=False, reason="timeout"),
        Failed("e", put_off=1_500_000),
        Snoozed(1_500_000, "n"),
        Released("n"),
        Released("n", "kind"),
        Returned(),
    ],
    ids=repr,
)
def test_every_outcome_arrives_as_it_was_in_a_document_and_in_a_frame(outcome: Outcome) -> None:
    assert outcomes.decode_reported(outcomes.encode(outcome)) == outcome
    (frame,) = Decoder().feed(outcomes.done_frame(1, 2, outcome))
    assert (frame.body["job"], frame.body["token"]) == (1, 2)
    assert outcomes.decode_reported(frame.body) == outcome


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        ({"outcome": "done", "result": '{"a":1}'}, Done('{"a":1}')),
        ({"outcome": "done"}, Done(None)),
        ({"outcome": "done", "result": "NaN"}, Failed("the result is not JSON: NaN is not JSON", again=False)),
        ({"outcome": "done", "result": 5}, Failed("the result is not text of at most 262,144 bytes", again=False)),
        ({"outcome": "failed", "error": "no file", "again": False}, Failed("no file", again=False)),
        ({"outcome": "failed"}, Failed("failed, and did not say why")),
        ({"outcome": "failed", "error": "e", "put_off": "5"}, Failed("e")),
        ({"outcome": "snoozed", "delay": 5, "note": "x"}, Snoozed(5, "x")),
        ({"outcome": "snoozed", "delay": 10**30}, Snoozed(outcomes.LONGEST_SNOOZE)),
        ({"outcome": "released", "note": 7}, Released(None)),
        ({"outcome": "released", "reason": "death"}, Released(None)),
        ({}, Failed("reported no outcome that rota knows: None")),
    ],
    ids=repr,
)
def test_each_document_is_taken_for_what_it_is(document: dict[str, Any], outcome: object) -> None:
    assert outcomes.decode(document) == outcomes.decode_reported(document) == outcome


def test_a_worker_cannot_say_that_its_own_job_spends_no_attempt() -> None:
    assert outcomes.decode({"outcome": "returned"}) == Failed("reported no outcome that rota knows: 'returned'")
    assert outcomes.decode({"outcome": "failed", "error": "e", "put_off": 5}) == Failed("e")


@pytest.mark.parametrize("text", ["not json", "", "Infinity", "1e400", r'"\ud800"', "[" * 61 + "]" * 61])
def test_a_result_or_checkpoint_that_some_reader_of_json_does_not_take_is_none(text: str) -> None:
    outcome = outcomes.decode({"outcome": "done", "result": text})
    assert isinstance(outcome, Failed) and outcome.error.startswith("the result is not JSON: ") and not outcome.again
    assert messages.checkpoint({"checkpoint": text}) is None


@pytest.mark.parametrize("outcome", [Released, partial(Released, reason="kind"), partial(Snoozed, SECOND)], ids=repr)
def test_a_note_is_cut_to_the_longest_before_it_is_sent_and_may_be_left_out(outcome: Callable[..., Outcome]) -> None:
    for note in ("brief", "x" * (outcomes.LONGEST_NOTE + 1)):
        (frame,) = Decoder().feed(outcomes.done_frame(1, 2, outcome(note=note)))
        assert frame.body["note"] == note[: outcomes.LONGEST_NOTE]
    (frame,) = Decoder().feed(outcomes.done_frame(1, 2, outcome()))
    assert frame.body["note"] is None
