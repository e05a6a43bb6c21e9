"""Jobs found by a text, and the jobs around one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.errors import NotFound
from rota.store.jobs import jobs as searching
from rota.store.jobs.dependencies import MOST_NODES, around
from rota.store.jobs.jobs import Page, search
from tests.support.work import add, add_many, finish

if TYPE_CHECKING:
    from rota.store.store import Store


def found(store: Store, text: str, **page: object) -> list[int]:
    return [job.id for job in search(store, text, Page().replace(**page))[0]]


def test_a_text_is_found_in_title_kind_or_key_whatever_its_case(store: Store) -> None:
    title, kind, key = add(store, "Tag THE file"), add(store, kind="the-kind"), add(store, key="Other/The key")
    add(store, "none")
    assert found(store, "the") == [key, kind, title] and found(store, "THE F") == [title]


@pytest.mark.parametrize("text", ["50%", "a_b", "!x", "%", "_", "\\"])
def test_no_letter_means_anything_but_itself(store: Store, text: str) -> None:
    add(store, "500 aXb x")
    wanted = add(store, f"this {text} stands here")
    assert found(store, text) == [wanted]


def test_state_and_queue_narrow_it_and_a_full_page_says_where_to_go_on(store: Store) -> None:
    ids = add_many(store, 5, queue="tag")
    finish(store, ids[0])
    add_many(store, 5, queue="scan")
    assert found(store, "job", queue="tag", status="ready") == ids[:0:-1]
    page, before = search(store, "job", Page(queue="tag", limit=2))
    assert [job.id for job in page] == [ids[4], ids[3]] and before == ids[3]
    rest, before = search(store, "job", Page(queue="tag", limit=9, before=before))
    assert [job.id for job in rest] == ids[2::-1] and before is None


def test_a_search_looks_at_so_many_and_says_where_it_stopped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "LOOKED_AT", 3)
    old = add(store, "needle")
    ids = add_many(store, 4)
    assert search(store, "needle", Page()) == ([], ids[1])
    second, before = search(store, "needle", Page(before=ids[1]))
    assert [job.id for job in second] == [old] and before is None
    assert search(store, "needle", Page(before=old)) == ([], None)


def test_the_jobs_around_one_in_both_directions(store: Store) -> None:
    first = add(store, "first", queue="scan")
    second = add(store, "second", after=[first])
    third, beside = add(store, after=[second]), add(store, after=[first])
    add(store, "a stranger")
    told = around(store, second)
    assert [node["id"] for node in told["nodes"]] == [first, second, third] and told["is_whole"]
    assert told["edges"] == [(second, first), (third, second)]
    assert told["nodes"][0] == {"id": first, "title": "first", "queue": "scan", "status": "ready"}
    assert {node["id"] for node in around(store, first)["nodes"]} == {first, second, third, beside}
    with pytest.raises(NotFound):
        around(store, 99)


def test_only_so_many_are_told_and_said_to_be_some(store: Store) -> None:
    needed = add(store)
    for _ in range(MOST_NODES + 5):
        add(store, after=[needed])
    told = around(store, needed)
    assert len(told["nodes"]) == MOST_NODES and not told["is_whole"]


def test_a_long_chain_is_cut_after_a_few_steps(store: Store) -> None:
    ids = [add(store)]
    for _ in range(9):
        ids.append(add(store, after=[ids[-1]]))
    told = around(store, ids[0])
    assert [node["id"] for node in told["nodes"]] == ids[:5] and not told["is_whole"]
