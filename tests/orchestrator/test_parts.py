"""The orchestrator's parts on their own."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done
from rota.core.errors import Conflict, Replaced, RotaError, StoreFull
from rota.core.job import NewJob
from rota.core.times import MILLISECOND, SECOND
from rota.orchestrator.dispatch import LARGEST_COUNT, SPAN, Dispatch, usual_after, window
from rota.orchestrator.event_loop import EventLoop
from rota.orchestrator.maintenance import now
from rota.orchestrator.pidlock import PidLock, holder, is_holder
from rota.orchestrator.pool_backoff import PoolBackoff
from rota.orchestrator.store_thread import DEATH, WORK, StoreThread
from rota.settings import Settings
from rota.store.claims.exchange import Exchange, Idle
from rota.store.open import open_store
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rota.store.store import Store


def answered(ledger: StoreThread, fact: Callable[[], bool]) -> None:
    """Carry on with answers, as the loop does, until this is so."""

    def look() -> bool:
        ledger.carry_on()
        return fact()

    eventually(look)


def test_a_window_grows_while_jobs_are_short_and_a_long_one_ends_it_at_once() -> None:
    usual, sizes = SPAN, []
    assert window(usual) == 1
    for _ in range(30):
        usual = usual_after(usual, 50)
        sizes.append(window(usual))
    assert sizes == sorted(sizes) and sizes[-1] == LARGEST_COUNT
    assert window(usual_after(usual, SECOND)) == 1
    assert window(usual_after(usual, 10 * MILLISECOND)) == 3


def test_what_is_forgotten_is_not_called_though_it_was_ready_too() -> None:
    loop, called = EventLoop(), []
    pipes = [os.pipe() for _ in range(2)]
    for (read, write), (other, _) in zip(pipes, reversed(pipes), strict=True):

        def take(read: int = read, other: int = other) -> None:
            called.append(os.read(read, 1))
            loop.forget_all(other)

        loop.watch(read, take)
        os.write(write, b"!")
    loop.turn(time.monotonic() + 30)
    assert called == [b"!"]
    loop.close()
    for descriptor in (*pipes[0], *pipes[1]):
        os.close(descriptor)


def test_what_waits_for_room_is_called_when_there_is_some() -> None:
    loop, called = EventLoop(), []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                ours.send(b"!" * 65536)
        loop.watch(ours.fileno(), lambda: None, lambda: called.append("room"))
        loop.want_write(ours.fileno(), True)
        loop.turn(time.monotonic())
        assert called == []
        theirs.recv(1 << 24)
        loop.turn(time.monotonic() + 30)
        assert called == ["room"]
    loop.close()


def test_who_only_looks_for_an_orchestrator_is_not_taken_for_one_and_keeps_none_from_beginning(tmp_path: Path) -> None:
    path, place = str(tmp_path / "rota.db.orchestrator"), PidLock(str(tmp_path / "rota.db.orchestrator"))
    with open(path, "w+") as looker:
        looker.write("1 1\n")  # one that was killed left its name
        looker.flush()
        fcntl.flock(looker, fcntl.LOCK_SH)
        assert holder(path) is None
        threading.Timer(0.1, fcntl.flock, (looker, fcntl.LOCK_UN)).start()
        assert place.take() is None
        assert holder(path) == os.getpid() and is_holder(path, os.getpid())
    place.release()


def test_one_may_be_the_orchestrator_and_the_next_when_it_is_gone(tmp_path: Path) -> None:
    path = str(tmp_path / "rota.db.orchestrator")
    first, second = PidLock(path), PidLock(path)
    assert holder(path) is None
    assert first.take() is None
    pid = second.take()
    assert pid is not None and pid == holder(path)
    first.release()
    assert holder(path) is None
    assert not (tmp_path / "rota.db.orchestrator").exists()
    assert second.take() is None
    second.release()


def test_the_ledger_answers_the_most_urgent_first_and_a_refusal_is_an_answer(tmp_path: Path) -> None:
    begun, gate, order = threading.Event(), threading.Event(), []

    def hold(_: Store) -> None:
        begun.set()
        gate.wait(30)

    ledger = StoreThread(lambda: open_store(str(tmp_path / "rota.db"), Settings(), make=True), lambda _: None)
    ledger.ask(WORK, hold, lambda _: order.append("first"))
    assert begun.wait(30)
    ledger.ask(WORK, lambda _: None, lambda _: order.append("work"))
    ledger.ask(DEATH, lambda _: None, lambda _: order.append("death"))

    def refuse(_: Store) -> None:
        raise Conflict("no")

    ledger.ask(WORK, refuse, lambda answer: order.append(str(answer)))
    gate.set()
    answered(ledger, lambda: len(order) == 4)
    assert order == ["first", "death", "work", "no"]
    assert ledger.close(30)


KEEP_SMALL = """
import os, sys
from rota.process.log import keep_small
path = sys.argv[1]
log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(log, 2)
for line in range(1000):
    os.write(log, b"%0100d" % line)  # a handler that prints
    keep_small(path, 30_000)
"""


def test_the_log_of_a_crew_in_the_background_stays_small_whoever_writes_to_it(tmp_path: Path) -> None:
    log = tmp_path / "orchestrator.log"
    subprocess.run([sys.executable, "-c", KEEP_SMALL, str(log)], check=True, timeout=60)
    kept = (tmp_path / "orchestrator.log.1").read_text() + log.read_text()
    assert log.stat().st_size < 30_100 and kept.endswith(f"{998:0100}{999:0100}")
    assert {path.name for path in tmp_path.iterdir()} == {"orchestrator.log", "orchestrator.log.1"}


def test_the_ledger_ends_an_orchestrator_whose_database_was_replaced(tmp_path: Path) -> None:
    path, answers = tmp_path / "rota.db", list[object]()
    ledger = StoreThread(lambda: open_store(str(path), Settings(), make=True), lambda _: None)
    ledger.ask(WORK, lambda store: store.jobs.add(NewJob("first")).id, answers.append)
    answered(ledger, lambda: len(answers) == 1)
    path.unlink()
    open_store(str(path), Settings(), make=True).close()
    ledger.ask(WORK, lambda store: store.jobs.add(NewJob("nobody would see it")).id, answers.append)
    answered(ledger, lambda: len(answers) == 2)
    assert isinstance(answers[1], Replaced)
    assert ledger.close(30)


@pytest.mark.parametrize("kept", [True, False])
def test_the_ledger_waits_for_a_database_that_was_moved_away_and_ends_without_its_lock(
    tmp_path: Path, kept: bool
) -> None:
    path, answers, troubles = tmp_path / "rota.db", list[object](), list[str]()
    ledger = StoreThread(lambda: open_store(str(path), Settings(), make=True), troubles.append)
    ledger.ask(WORK, lambda store: store.jobs.add(NewJob("first")).id, answers.append)
    answered(ledger, lambda: len(answers) == 1)
    path.rename(tmp_path / "aside")
    if not kept:
        (tmp_path / "rota.db.lock").unlink()
    ledger.ask(WORK, lambda store: store.jobs.add(NewJob("nobody would see it")).id, answers.append)
    answered(ledger, lambda: bool(troubles) if kept else len(answers) == 2)
    (tmp_path / "aside").rename(path)
    answered(ledger, lambda: len(answers) == 2)
    assert isinstance(answers[1], int if kept else Replaced)
    assert troubles[1:] == (["the store answers again"] if kept else [])
    assert ledger.close(30)


def test_a_lock_that_was_removed_with_its_database_leaves_that_of_the_next(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first, second = PidLock(path), PidLock(path)
    assert first.take() is None
    os.unlink(path)
    assert second.take() is None
    first.release()
    assert holder(path) == os.getpid()
    second.release()
    assert not os.path.exists(path)


def test_the_ledger_tries_again_while_the_store_is_away(tmp_path: Path) -> None:
    troubles: list[str] = []
    answers: list[int] = []

    def full_at_first(_: Store) -> int:
        if not troubles:
            raise StoreFull("the disk is full")
        return 5

    ledger = StoreThread(lambda: open_store(str(tmp_path / "rota.db"), Settings(), make=True), troubles.append)
    ledger.ask(WORK, full_at_first, answers.append)
    answered(ledger, lambda: answers == [5])
    assert troubles == ["the disk is full; trying again until it answers", "the store answers again"]
    assert ledger.close(30)


NO_STREAKS = PoolBackoff({}, lambda *_: None)


def test_what_an_exchange_carries_is_unsettled_until_it_is_answered(tmp_path: Path) -> None:
    ledger = StoreThread(lambda: open_store(str(tmp_path / "rota.db"), Settings(), make=True), lambda _: None)
    busy, refused = threading.Event(), list[RotaError]()
    ledger.submit(WORK, lambda _: busy.wait(60))
    work = Dispatch(ledger, lambda *_: None, refused.append, lambda: None, NO_STREAKS)
    work.report("worker-1", (1, 11, Done()))
    work.turn([], now())
    work.report("worker-1", (2, 12, Done()))
    assert (work.unsettled, work.is_settled) == ([11, 12], False)
    assert [token for _, token, _ in work.take("worker-1")] == [11, 12]
    busy.set()
    answered(ledger, lambda: work.is_settled)
    assert (work.unsettled, len(refused)) == ([], 1)
    assert ledger.close(30)


def test_an_idle_crew_asks_for_work_once_and_then_when_it_is_woken(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "rota.db"), Settings(), make=True)
    ledger = StoreThread(lambda: open_store(str(tmp_path / "rota.db"), Settings()), lambda _: None)
    answers = list[Exchange]()
    work = Dispatch(ledger, lambda answer, _: answers.append(answer), lambda problem: None, lambda: None, NO_STREAKS)
    id = store.orchestrators.join()
    idle = [Idle(store.orchestrators.register_worker(id, "worker:tag:0", "tag"), "tag", 2)]
    work.begin(id)
    work.turn([], now())
    assert work.is_settled  # nobody has room
    work.turn(idle, now())
    answered(ledger, lambda: len(answers) == 1)
    work.turn(idle, now())
    assert work.is_settled  # nothing was there the last time
    work.wake()
    work.turn(idle, now())
    answered(ledger, lambda: len(answers) == 2)
    assert ledger.close(30)
    store.close()


def test_an_exchange_that_changed_nothing_asks_for_no_look_and_one_that_did_does(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "rota.db"), Settings(), make=True)
    ledger = StoreThread(lambda: open_store(str(tmp_path / "rota.db"), Settings()), lambda _: None)
    answers, looks = list[Exchange](), list[int]()
    work = Dispatch(
        ledger, lambda answer, _: answers.append(answer), lambda problem: None, lambda: looks.append(1), NO_STREAKS
    )
    id = store.orchestrators.join()
    idle = [Idle(store.orchestrators.register_worker(id, "worker:tag:0", "tag"), "tag", 2)]
    work.begin(id)
    work.turn(idle, now())
    answered(ledger, lambda: len(answers) == 1)
    assert (answers[0].claims, looks) == ([], [])
    store.jobs.add(NewJob("the only one", queue="tag"))
    work.wake()
    work.turn(idle, now())
    answered(ledger, lambda: len(answers) == 2)
    assert (len(answers[1].claims), looks) == (1, [1])
    assert ledger.close(30)
    store.close()
