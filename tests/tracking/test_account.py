"""An account of many workers: who is in it, who has left, and what it keeps while nothing can be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.times import SECOND
from rota.tracking import outbox as accounts
from rota.tracking.delta import Parcel, Progress
from rota.tracking.outbox import Account

if TYPE_CHECKING:
    from rota.tracking.postgres import Connection


def rows(sql: Connection) -> list[tuple[object, ...]]:
    return sql.execute(
        "SELECT heartbeat_count, success_count FROM ai.vectorizer_worker_process ORDER BY success_count"
    ).fetchall()


def test_only_those_with_news_beat_when_it_is_not_time_for_everyone(sql: Connection) -> None:
    account = Account("1", SECOND)
    idle, busy = account.open(), account.open()
    account.beat(sql)
    account.add(idle, Parcel(1))
    account.add(busy, Parcel(2, progress=(Progress(1, successes=2),)))
    account.beat(sql, everyone=False)
    assert rows(sql) == [(1, 0), (2, 2)]
    account.beat(sql)
    assert rows(sql) == [(2, 1), (3, 2)]


def test_one_that_came_and_one_that_left_are_told_of_at_once_and_the_last_never_again(sql: Connection) -> None:
    account = Account("1", SECOND)
    first = account.open()
    account.beat(sql)
    account.open()
    account.add(first, Parcel(3))
    account.leave(first)
    for _ in range(3):
        account.beat(sql, everyone=False)
    assert rows(sql) == [(1, 0), (2, 3)]


def test_the_counts_of_many_that_left_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MOST_LEFT", 2)
    account = Account("1", SECOND)
    for count in (100, 10, 1):
        entry = account.open()
        account.add(entry, Parcel(count))
        account.leave(entry)
    assert account.unsent == Parcel(11)


def test_where_nothing_can_be_reported_those_that_left_are_forgotten(sql: Connection) -> None:
    account = Account("1", SECOND)
    stays, leaves = account.open(), account.open()
    account.add(stays, Parcel(1))
    account.add(leaves, Parcel(10))
    account.leave(leaves)
    account.forget_left()
    account.beat(sql)
    assert rows(sql) == [(1, 1)]
