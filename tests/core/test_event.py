"""Facts of the event log, and the codec of their stored form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core import event
from rota.core.event import (
    Event,
    JobChanged,
    JobMoved,
    OrchestratorChanged,
    OtherChanged,
    QueueChanged,
    ScheduleChanged,
    SlotChanged,
    SourceChanged,
    StoreChanged,
    TokenChanged,
    UnknownFact,
    WorkerChanged,
    change,
    decode,
    encode,
)

if TYPE_CHECKING:
    from rota.core.event import Fact

STORED: dict[str, tuple[list[Any], Fact]] = {
    "added": (["job", "add", "tag", None, "ready", [1, 2]], JobMoved("add", "tag", None, "ready", [1, 2])),
    "claimed": (
        ["job", "claim", "tag", "ready", "active", [1], {"worker": "w"}],
        JobMoved("claim", "tag", "ready", "active", [1], {"worker": "w"}),
    ),
    "pruned": (["job", "prune", "tag", "done", None, [1]], JobMoved("prune", "tag", "done", None, [1])),
    "job": (["job", "renew", "7", {"token": 3}], JobChanged("renew", "7", {"token": 3})),
    "queue": (["queue", "make", "tag", {}], QueueChanged("make", "tag", {})),
    "worker": (["worker", "die", "w", {"reason": "x"}], WorkerChanged("die", "w", {"reason": "x"})),
    "slot": (["slot", "move", "worker:tag:0", {}], SlotChanged("move", "worker:tag:0", {})),
    "orchestrator": (["orchestrator", "lapse", "1", {}], OrchestratorChanged("lapse", "1", {})),
    "source": (["source", "fill", "files", {"added": 2}], SourceChanged("fill", "files", {"added": 2})),
    "schedule": (["schedule", "fire", "nightly", {}], ScheduleChanged("fire", "nightly", {})),
    "token": (["token", "revoke", "t", {}], TokenChanged("revoke", "t", {})),
    "store": (["store", "restore", "numbers", {}], StoreChanged("restore", "numbers", {})),
    "a noun of a later version": (
        ["tenant", "make", "acme", {"n": 1}],
        OtherChanged("tenant", "make", "acme", {"n": 1}),
    ),
    "a form of a later version": (["worker", "odd", "w"], UnknownFact(["worker", "odd", "w"])),
    "a longer move": (
        ["job", "add", "tag", None, "ready", [1], {}, 8],
        UnknownFact(["job", "add", "tag", None, "ready", [1], {}, 8]),
    ),
    "no list": (7, UnknownFact(7)),  # type: ignore[dict-item]
}


@pytest.mark.parametrize(("stored", "fact"), STORED.values(), ids=STORED)
def test_every_fact_is_read_as_it_was_written(stored: list[Any], fact: Fact) -> None:
    (read,) = decode(json.dumps([stored]))
    assert read == fact
    assert json.loads(encode([fact])) == [stored]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
HEADS = st.sampled_from([["job", "add", "tag"], ["job", "add", "tag", None, "ready"], ["worker", "die"], []])


@given(HEADS, st.lists(JSON))
def test_whatever_a_later_version_wrote_is_read_and_written_again_unchanged(head: list[Any], tail: list[Any]) -> None:
    facts = decode(json.dumps([[*head, *tail]]))
    written = json.loads(encode(facts))
    empty_details = isinstance(facts[0], JobMoved) and [*head, *tail][6:] == [{}]
    assert written == [[*head, *tail][:6] if empty_details else [*head, *tail]]


def test_facts_of_an_event_are_chosen_by_kind_and_verb() -> None:
    claim, finish = JobMoved("claim", "q", "ready", "active", [1]), JobMoved("finish", "q", "active", "done", [2])
    died = WorkerChanged("die", "w", {})
    mixed = Event("1", 0, "me", [claim, died, finish, UnknownFact(["?"])])
    assert mixed.of(JobMoved) == [claim, finish] and mixed.of(JobMoved, "finish", "fail") == [finish]
    assert mixed.of(WorkerChanged, "die") == [died] and mixed.of(WorkerChanged, "leave") == []
    assert mixed.of(event.Changed) == [died]


def test_a_change_is_of_the_kind_of_its_noun() -> None:
    assert change("slot", "move", "worker:tag:0", {}) == SlotChanged("move", "worker:tag:0", {})
    assert change("job", "renew", "12", {}) == JobChanged("renew", "12", {}) and JobChanged("renew", "12", {}).id == 12
    assert change("tenant", "make", "acme", {}) == OtherChanged("tenant", "make", "acme", {})
