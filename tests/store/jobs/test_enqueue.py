"""Jobs are added whole or not at all, and read back as they were given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rota.core.errors import BadInput, NotFound, RotaError, TooLarge
from rota.core.job import READY
from rota.core.jsontext import Raw
from rota.core.schedule import NewSchedule
from rota.core.times import MINUTE
from rota.store.jobs.enqueue import NewJob
from tests.support.stores import rows
from tests.support.work import add, add_many, finish, told

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock

LIMIT = 256 * 1024


def test_a_job_reads_back_as_it_was_given(store: Store, clock: FakeClock) -> None:
    job = store.jobs.add(
        NewJob("tag it", "tag", "audio", {"path": "ä.wav"}, 5, key="k", limit_key="l", max_attempts=7, timeout=MINUTE)
    )
    assert (job.title, job.queue, job.kind, job.payload, job.priority) == (
        "tag it",
        "tag",
        "audio",
        {"path": "ä.wav"},
        5,
    )
    assert (job.key, job.limit_key, job.max_attempts, job.timeout) == ("k", "l", 7, MINUTE)
    assert (job.status, job.attempts, job.generation, job.created_at) == (READY, 0, 1, clock.now())
    assert store.jobs.get(job.id) == job


def test_attempts_default_to_the_setting(store: Store) -> None:
    assert store.jobs.get(add(store)).max_attempts == store.settings.max_attempts == 3


def test_ids_only_grow_and_are_answered_in_order(store: Store) -> None:
    first, many = add(store), add_many(store, 5)
    assert many == sorted(many) and many[0] > first
    assert [store.jobs.get(id).title for id in many] == [f"job {n}" for n in range(5)]


def test_a_batch_is_added_whole_or_not_at_all(store: Store) -> None:
    before = told(store)
    with pytest.raises(NotFound, match="there is no job 99 to wait for"):
        store.jobs.add_many([NewJob("first"), NewJob("second", after=[99])])
    with pytest.raises(BadInput):
        store.jobs.add_many([NewJob("first"), NewJob("")])
    assert store.jobs.list() == [] and told(store) == before
    assert store.queues.list() == []


def test_adding_nothing_changes_nothing(store: Store) -> None:
    before = told(store)
    assert store.jobs.add_many([]) == []
    assert told(store) == before


def test_a_parent_knows_its_children(store: Store) -> None:
    parent = add(store)
    children = [add(store, parent=parent), add(store, parent=parent)]
    assert store.jobs.get(parent).children == tuple(children)
    assert store.jobs.get(children[0]).parent == parent
    with pytest.raises(NotFound, match="there is no job 99 to be the parent"):
        add(store, parent=99)


def test_a_key_met_again_answers_with_the_job_that_has_it(store: Store) -> None:
    first = add(store, "first", key="k")
    before = told(store)
    assert store.jobs.add(NewJob("second", key="k")).title == "first"
    assert told(store) == before, "a repeated key changes nothing"
    finish(store, first)
    assert add(store, key="k") == first, "even when that job is over"


def test_a_key_is_unique_within_its_queue_alone(store: Store) -> None:
    assert add(store, queue="a", key="k") != add(store, queue="b", key="k")


def test_a_key_twice_in_one_batch_is_one_job(store: Store) -> None:
    ids = store.jobs.add_many([NewJob("first", key="k"), NewJob("other"), NewJob("second", key="k")])
    assert ids[0] == ids[2] != ids[1]
    assert len(store.jobs.list()) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"title": ""},
        {"title": " \t"},
        {"title": "x" * 1001},
        {"title": "a\0b"},
        {"title": "caf\udce9"},
        {"queue": "a b"},
        {"queue": "*"},
        {"queue": ""},
        {"key": ""},
        {"key": "k" * 201},
        {"key": "\ud800"},
        {"limit_key": ""},
        {"limit_key": "k\0"},
        {"kind": "k" * 201},
        {"priority": 1 << 31},
        {"priority": -(1 << 31) - 1},
        {"max_attempts": 0},
        {"max_attempts": 2**70},
        {"max_attempts": True},
        {"priority": 1.5},
        {"priority": 2**70},
        {"timeout": 2**70},
        {"timeout": 2**62},
        {"at": 2**70},
        {"at": 2**62},
        {"parent": 2**70},
        {"after": [2**70]},
        {"follows": [2**70]},
        {"key": "k", "debounce": 2**62},
        {"timeout": 0},
        {"timeout": -1},
        {"payload": {1, 2}},
        {"payload": float("nan")},
        {"payload": "\ud800"},
        {"payload": Raw("{")},
        {"payload": Raw("")},
        {"payload": Raw("NaN")},
        {"payload": Raw("[" * 100_000)},
        {"payload": Raw("1e400")},
        {"payload": Raw(r'{"\udcff": 1}')},
        {"payload": 10**400},
        {"payload": json.loads("[" * 61 + "]" * 61)},
        {"payload": Raw("[" * 61 + "]" * 61)},
    ],
    ids=lambda fields: repr(fields)[:40],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(store: Store, fields: dict[str, object]) -> None:
    before = told(store)
    with pytest.raises(BadInput):
        add(store, **{"title": "a job", **fields})  # type: ignore[arg-type]
    assert told(store) == before and store.jobs.list() == []


@pytest.mark.parametrize("n", [2**63, 2**70, -(2**70)])
def test_a_number_that_no_database_can_keep_is_refused_wherever_it_comes_in(store: Store, n: int) -> None:
    job = add(store)
    before = told(store)
    for ask in (
        lambda: store.jobs.get(n),
        lambda: store.jobs.list(limit=n),
        lambda: store.jobs.list(before=n),
        lambda: store.jobs.cancel(n),
        lambda: store.jobs.snooze(job, n),
        lambda: store.claims.claim(n),
        lambda: store.claims.claim(job, lease=n),
        lambda: store.workers.register("w", n),
        lambda: store.workers.register("w", pid=n),
        lambda: store.queues.set("default", max_depth=n),
        lambda: store.schedules.add(NewSchedule("s", "0 * * * *", max_attempts=n)),
    ):
        with pytest.raises(BadInput):
            ask()
    assert told(store) == before


@pytest.mark.parametrize("payload", ["x" * (LIMIT - 2), "ä" * (LIMIT // 2 - 1), Raw('"' + "x" * (LIMIT - 2) + '"')])
def test_a_payload_of_the_largest_size_passes(store: Store, payload: object) -> None:
    assert len(str(store.jobs.get(add(store, payload=payload)).payload_json).encode()) == LIMIT


@pytest.mark.parametrize("payload", ["x" * (LIMIT - 1), "ä" * (LIMIT // 2), Raw('"' + "x" * (LIMIT - 1) + '"')])
def test_a_byte_more_is_refused(store: Store, payload: object) -> None:
    with pytest.raises(TooLarge, match=r"the payload is too large: 262,14[5-6] bytes, at most 262,144"):
        add(store, payload=payload)


def test_a_result_has_the_same_limit(store: Store) -> None:
    job = add(store)
    store.claims.claim(job)
    with pytest.raises(TooLarge, match="the result is too large"):
        store.jobs.done(job, "x" * LIMIT)
    assert store.jobs.get(job).status == "active"


@pytest.mark.parametrize("value", ["\ud800", Raw(r'"\ud800"'), Raw("1e400"), float("inf"), Raw("[" * 61 + "]" * 61)])
def test_a_result_and_a_checkpoint_follow_the_rule_of_payloads(store: Store, value: object) -> None:
    job = add(store)
    claim = store.claims.claim(job)
    with pytest.raises(BadInput, match="the result "):
        store.jobs.done(job, value)
    with pytest.raises(BadInput, match="the checkpoint "):
        store.claims.checkpoint(claim, value)
    assert (store.jobs.get(job).status, store.jobs.get(job).checkpoint) == ("active", None)


def test_raw_json_is_kept_as_it_stands(store: Store) -> None:
    assert store.jobs.get(add(store, payload=Raw(' {"a":  1} '))).payload_json == '{"a":  1}'


def test_an_unknown_id_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="there is no job 5"):
        store.jobs.get(5)


def test_jobs_are_listed_newest_first_by_state_and_queue_a_page_at_a_time(store: Store) -> None:
    ids = add_many(store, 5)
    other = add(store, queue="other")
    finish(store, ids[0])
    assert [job.id for job in store.jobs.list()] == [other, *reversed(ids)]
    assert [job.id for job in store.jobs.list(queue="default", limit=2)] == [ids[4], ids[3]]
    assert [job.id for job in store.jobs.list(queue="default", limit=2, before=ids[3])] == [ids[2], ids[1]]
    assert [job.id for job in store.jobs.list("done")] == [ids[0]]
    with pytest.raises(BadInput, match="'finished' is not a job's state: one of blocked"):
        store.jobs.list("finished")


@pytest.mark.parametrize("state", ["active", "failed"])
def test_active_and_failed_jobs_are_listed_by_their_own_index(store: Store, state: str) -> None:
    ids = [*add_many(store, 3, max_attempts=1), add(store, queue="other", max_attempts=1)]
    for id in ids[1:]:
        store.claims.claim(id)
        if state == "failed":
            store.jobs.fail(id, "no")
    assert [job.id for job in store.jobs.list(state)] == [ids[3], ids[2], ids[1]]
    assert [job.id for job in store.jobs.list(state, "default", 1)] == [ids[2]]
    assert [job.id for job in store.jobs.list(state, before=ids[2])] == [ids[1]]


def test_nothing_is_half_there_when_the_program_stumbles_inside_a_change(store: Store) -> None:
    add(store)
    before = rows(store, "SELECT * FROM job"), rows(store, "SELECT * FROM tally"), told(store)
    with pytest.raises(RotaError), store.write() as tx:
        tx.draw_many("job", 5)
        tx.moved("add", "default", None, "ready", [7])
        raise RotaError
    assert (rows(store, "SELECT * FROM job"), rows(store, "SELECT * FROM tally"), told(store)) == before
