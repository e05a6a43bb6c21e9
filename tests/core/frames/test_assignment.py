"""A job reaches its worker as the store assigned it, and what makes no sense as a job is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.claim import Claim, Run
from rota.core.frames.assignment import LONGEST_PREVIOUS_ERROR, Assignment, PreviousRun, decode, encode, of_claim
from rota.core.times import SECOND
from tests.core.jobs import a_job

RUN = Run(1, 2, "worker-00000000", 3, 4, 5, "fail", "timeout", "e" * 3000, "n", 6)
PREVIOUS = PreviousRun("run-00000001", "worker-00000000", 3, "failed", "timeout", "e" * 3000, "n")
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)
NAMES = ("id", "token", "kind", "queue", "timeout", "payload", "previous_runs", "whole", "fence")


def test_a_plain_job_is_sent_without_what_is_not_set() -> None:
    plain = Assignment(1, 2, "worker-00000000", "tag", "kind", "title", '{"a":1}', -3, 4, 5, None, None)
    document = json.loads(encode(plain))
    assert "timeout" not in document and "previous_runs" not in document
    job = decode(document)
    assert job is not None
    assert (job.id, job.token, job.queue, job.kind, job.title) == (1, 2, "tag", "kind", "title")
    assert (job.payload, job.priority, job.attempt, job.max_attempts) == ('{"a":1}', -3, 4, 5)
    assert (job.timeout, job.checkpoint, job.whole) == (None, None, None)
    assert not job.is_fenced and not job.previous_runs


def test_every_field_that_a_handler_may_need_reaches_it() -> None:
    full = Assignment(
        1, 2, "worker-00000000", "tag", "kind", "title", None, 0, 4, 5, 6 * SECOND, "[1]", True, "key", (RUN,),
        False, None, "source", "trace", 10,
    )  # fmt: skip
    job = decode(json.loads(encode(full, {"id": 1})))
    assert job is not None
    assert (job.payload, job.timeout, job.checkpoint, job.is_fenced) == (None, 6 * SECOND, "[1]", True)
    assert (job.key, job.trace, job.scheduled_for, job.whole) == ("key", "trace", 10, {"id": 1})
    assert list(job.previous_runs) == [PREVIOUS.replace(error="e" * LONGEST_PREVIOUS_ERROR)]
    assert (job.run_id, job.deadline, job.cancelled) == ("run-00000002", None, None)


def test_a_job_that_is_claimed_by_hand_looks_the_same_to_its_handler() -> None:
    stored = a_job(payload_json="[2]", timeout=2 * SECOND, key="k", trace="t", checkpoint_json="3")
    job = of_claim(stored, Claim(stored.id, 7, "worker-00000000", 0, None), [RUN], 1.5)
    assert (job.id, job.token, job.kind, job.queue, job.title) == (
        stored.id,
        7,
        stored.kind,
        stored.queue,
        stored.title,
    )
    assert (job.payload, job.timeout, job.key, job.trace, job.checkpoint) == ("[2]", 2 * SECOND, "k", "t", "3")
    assert (job.attempt, job.max_attempts) == (stored.attempts + 1, stored.max_attempts)
    assert (list(job.previous_runs), job.deadline) == ([PREVIOUS], 1.5)


@pytest.mark.parametrize(
    "wrong",
    [None, [], "job", {}, {"id": 1, "token": 2}, {"id": "1", "token": 2, "kind": "k"}],
    ids=repr,
)
def test_what_is_no_job_is_left_out(wrong: object) -> None:
    assert decode(wrong) is None


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, JSON)))
def test_no_document_raises(document: dict[str, Any]) -> None:
    decode(document)
    decode({**document, "id": 1, "token": 2, "kind": "k", "queue": None, "timeout": None})
