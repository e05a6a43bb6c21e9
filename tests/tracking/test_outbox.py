"""An outbox of many workers: who is in it, who has left, and what it keeps while nothing can be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.times import SECOND
from rota.tracking import outbox as outbox_module
from rota.tracking.outbox import Delta, Outbox, Progress

if TYPE_CHECKING:
    from rota.tracking.connections import Connection


def rows(sql: Connection) -> list[tuple[object, ...]]:
    return sql.execute(
        "SELECT heartbeat_count, success_count FROM ai.vectorizer_worker_process ORDER BY success_count"
    ).fetchall()


def test_only_those_with_news_beat_when_it_is_not_time_for_everyone(sql: Connection) -> None:
    outbox = Outbox("1", SECOND)
    idle, busy = outbox.open(), outbox.open()
    outbox.send(sql)
    outbox.add(idle, Delta(1))
    outbox.add(busy, Delta(2, progress=(Progress(1, successes=2),)))
    outbox.send(sql, everyone=False)
    assert rows(sql) == [(1, 0), (2, 2)]
    outbox.send(sql)
    assert rows(sql) == [(2, 1), (3, 2)]


def test_one_that_came_and_one_that_left_are_told_of_at_once_and_the_last_never_again(sql: Connection) -> None:
    outbox = Outbox("1", SECOND)
    first = outbox.open()
    outbox.send(sql)
    outbox.open()
    outbox.add(first, Delta(3))
    outbox.leave(first)
    for _ in range(3):
        outbox.send(sql, everyone=False)
    assert rows(sql) == [(1, 0), (2, 3)]


def test_the_counts_of_many_that_left_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "MOST_LEFT", 2)
    outbox = Outbox("1", SECOND)
    for count in (100, 10, 1):
        entry = outbox.open()
        outbox.add(entry, Delta(count))
        outbox.leave(entry)
    assert outbox.unsent == Delta(11)


def test_where_nothing_can_be_reported_those_that_left_are_forgotten(sql: Connection) -> None:
    outbox = Outbox("1", SECOND)
    stays, leaves = outbox.open(), outbox.open()
    outbox.add(stays, Delta(1))
    outbox.add(leaves, Delta(10))
    outbox.leave(leaves)
    outbox.forget_left()
    outbox.send(sql)
    assert rows(sql) == [(1, 1)]
