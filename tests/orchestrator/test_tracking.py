"""What an orchestrator counts for its workers: what the store took, once, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.core import job as jobs
from rota.core.claim import Done, Failed, Snoozed
from rota.core.frames.assignment import Assignment
from rota.core.times import SECOND
from rota.orchestrator.tracking import Tracked
from rota.tracking.connections import opened
from rota.tracking.schema import install
from rota.tracking.tracker import WorkerRows
from tests.support.postgres import shared

if TYPE_CHECKING:
    from collections.abc import Iterator


class Book:
    """A worker `w` that is tracked, and what the database says of it in the end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._worker_rows = WorkerRows(url, SECOND, lambda _: None)
        self.tracked = Tracked(self._worker_rows)
        self.tracked.came("w")

    def ends(self, *outcomes: Done | Failed | Snoozed) -> list[int]:
        """Jobs end so, in token order from 1 on."""
        for token, outcome in enumerate(outcomes, 1):
            held = Assignment(token, token, "w", "tag", "tag", "tag", None, 0, 1, 3, None, None)
            self.tracked.reported("w", held, outcome)
        return [*range(1, len(outcomes) + 1)]

    def totals(self) -> list[tuple[object, ...]]:
        self._worker_rows.close(10)
        with psycopg.connect(self.url) as sql:
            return sql.execute("SELECT success_count, error_count FROM ai.vectorizer_worker_process").fetchall()


@pytest.fixture
def book() -> Iterator[Book]:
    with shared().database() as url:
        with opened(url) as connection:
            install(connection)
        yield Book(url)


def test_a_worker_that_leaves_takes_only_its_own_reports_along(book: Book) -> None:
    (gone,) = book.ends(Done())
    book.tracked.came("other")
    held = Assignment(9, 9, "other", "tag", "tag", "tag", None, 0, 1, 3, None, None)
    book.tracked.reported("other", held, Done())
    book.tracked.left("w", {}, crowded=False)
    book.tracked.settled([gone, held.token], ())
    assert sorted(book.totals()) == [(0, 0), (1, 0)]


def test_what_is_settled_twice_counts_once(book: Book) -> None:
    tokens = book.ends(Done(), Failed("e"), Snoozed(SECOND))
    book.tracked.settled(tokens, ())
    book.tracked.settled(tokens, ())
    book.tracked.left("w", dict.fromkeys(tokens, (jobs.FINISH, None)), crowded=False)
    assert book.totals() == [(1, 1)]


def test_what_the_store_refused_or_never_answered_does_not_count(book: Book) -> None:
    refused, *_ = book.ends(Done(), Done(), Done())
    book.tracked.settled([refused], [refused])
    book.tracked.settled([2], ())
    book.tracked.left("w", {}, crowded=False)
    book.tracked.settled([3], ())
    assert book.totals() == [(1, 0)]


def test_after_a_death_the_store_says_how_each_claim_ended(book: Book) -> None:
    book.ends(Done(), Done(), Failed("e"), Done())
    ends = {1: (jobs.FINISH, None), 2: (jobs.DIE, "died"), 3: (jobs.FAIL, "e"), 4: (jobs.CANCEL, "cancelled")}
    book.tracked.left("w", ends, crowded=False)
    assert book.totals() == [(1, 2)]


def test_where_several_were_in_hand_a_death_is_nobodys_error(book: Book) -> None:
    book.ends(Done(), Done())
    book.tracked.left("w", {1: (jobs.FINISH, None), 2: (jobs.DIE, "died")}, crowded=True)
    assert book.totals() == [(1, 0)]
