"""What goes between an orchestrator elsewhere and its store: every field arrives as it was, in bounded bodies."""

from __future__ import annotations

import json

import msgspec
import pytest

from rota import documents
from rota.api.schemas import machine
from rota.api.schemas.derive import Answer, derived
from rota.api.schemas.requests import Request
from rota.core.claim import Done, Failed, Released, Returned, Run, Snoozed
from rota.core.frames.assignment import Assignment
from rota.core.frames.messages import Kinds
from rota.core.jsontext import encode
from rota.core.record import Record
from rota.core.schedule import NewSchedule
from rota.core.slot import History, RestartPolicy
from rota.core.times import SECOND
from rota.store.claims.exchange import Exchange, Idle, Report
from rota.store.remote.orchestrators import LARGEST_REPORT, report_bodies
from rota.store.remote.records import fields, from_document, machine_records, to_document
from rota.store.workers.crews import Directive, Home, PollResult, Process
from rota.store.workers.death import Death
from rota.store.workers.slots import Slot
from tests.core.jobs import a_job

RUN = Run(1, 2, "worker-00000000", 3, 4, 5, "fail", "death", "e", "n", 6, "/t", "/s")
HANDOUT = Assignment(
    1, 2, "worker-00000000", "tag", "kind", "title", '{"a":1}', -3, 4, 5, 6_500_000, "[1]", True, "key", (RUN,), True,
    a_job(payload_json='{"a":1}', timeout=2 * SECOND, key="k", trace="t"), "source", "trace", 10,
)  # fmt: skip
PROCESS = Process("worker-00000000", 7, 8, "worker:tag:0")
SLOT = Slot("worker:tag:0", "tag", 0, "main", "h", "up", "w", True, 9, History((1, 2), 3, 4, "r", 5), "late")
WISH = Directive(4, [SLOT], frozenset({1, 2}), frozenset({"w"}), frozenset({"tag"}), "drain")
SAMPLES: list[Record] = [
    Kinds(frozenset({"a", "b"}), True),
    RestartPolicy(1 * SECOND, 2, 3, 4 * SECOND, 50_000),
    SLOT.history,
    SLOT,
    PROCESS,
    Home("h", "name", 7, "1.0", "token-00000000"),
    WISH,
    PollResult(WISH, 1_250_000, [PROCESS], [PROCESS]),
    Death("w", "s", "exited", "text", 80, 9, True, True, "by", "{}", "DONE", "tail\x00", (1, 2)),
    Idle("worker-00000000", "tag", 3, 2, True, Kinds(frozenset({"k"}))),
    HANDOUT,
    Exchange([HANDOUT], [3], 4, 1_500_000),
    NewSchedule("n", "* * * * *", "Z", "all", "tag", "k", '{"a":1}', 2, 3, 4 * SECOND),
]


def over_the_wire(record: Record) -> object:
    return json.loads(
        encode(
            to_document(
                record,
                {"Run": documents.run, "Job": lambda it: {**documents.job(it), "details": documents.job_details(it)}},
            )
        )
    )


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
def test_a_record_arrives_as_it_was(record: Record) -> None:
    document = over_the_wire(record)
    assert isinstance(document, dict)
    assert from_document(type(record), document) == record
    for name in record._fields:
        default = getattr(type(record), name, None)
        assert getattr(record, name) != default or name == "text", f"the sample shows nothing of {name}"


def test_every_record_that_is_carried_is_tried_here() -> None:
    assert {type(record) for record in SAMPLES} == set(machine_records().values())


def test_the_types_of_the_api_have_every_field_of_their_records() -> None:
    for record in machine_records().values():
        for base in (Request, Answer):
            if record in (Assignment, Exchange, PollResult, Directive, Slot, History) and base is Request:
                continue
            assert derived(record, base).__struct_fields__ == tuple(field.shown for field in fields(record))


OUTCOMES = [
    Done(),
    Done("null"),
    Failed("e", False, "timeout"),
    Failed("e", put_off=1_500_000),
    Failed(""),
    Snoozed(1_500_000, "n"),
    Released("n", "kind"),
    Returned(),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_an_outcome_arrives_as_it_was(outcome: Done) -> None:
    (parcel,) = report_bodies(Report([(1, 2, outcome)]))
    (document,) = parcel["outcomes"]
    found = machine.settled_of(msgspec.json.decode(encode(document).encode(), type=machine.Outcome))
    expected = Failed("failed, and did not say why") if outcome == Failed("") else outcome
    assert found == (1, 2, expected)


@pytest.mark.parametrize("result", [f"{'[' * 61}{']' * 61}", '{"a": 1e400}', '"\\ud800"'])
def test_a_result_that_may_not_be_kept_fails_its_own_job_and_not_the_exchange(result: str) -> None:
    job, token, outcome = machine.settled_of(machine.Outcome(1, 2, "done", result))
    assert (job, token) == (1, 2) and isinstance(outcome, Failed) and not outcome.again
    assert outcome.error.startswith("the result is not JSON: ")


def test_what_is_too_much_for_one_body_goes_in_several() -> None:
    large = json.dumps("x" * 250_000)
    found = report_bodies(Report([(n, n, Done(large)) for n in range(9)], checkpoints=[(large, 10, 10)]))
    assert len(found) == 4 and all(len(encode(each)) < LARGEST_REPORT + 300_000 for each in found)
    assert [each["token"] for parcel in found for each in parcel.get("outcomes", [])] == list(range(9))
    assert report_bodies(Report()) == [{}]
