"""What is particular to SQLite: one writer at a time, a log that stays small, forks, the clock of a boot, the work."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from threading import Thread
from typing import TYPE_CHECKING

import apsw
import pytest

from rota.core.errors import Conflict
from rota.core.times import DAY, HOUR
from rota.process import host as clock
from rota.settings import Settings
from rota.store.open import open_store
from rota.store.sqlite import database, lock
from tests.support.eventually import eventually
from tests.support.processes import LOCK_WITHOUT_QUEUEING, line, output, python, say
from tests.support.stores import make_store, path_of, rows
from tests.support.work import add, claim, finish, status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """On the real clock."""
    with make_store("sqlite", tmp_path) as opened:
        yield opened


FORK = """
import fcntl
import os
store = open_store(sys.argv[1], Settings())
first = store.jobs.add(NewJob("before the fork")).id
children = []
for n in range(4):
    child = os.fork()
    if not child:
        for _ in range(20):
            store.jobs.add(NewJob(f"child {n}"))
        if n == 0:
            store.claims.claim(first)
        with store.write():
            holder = open(sys.argv[1] + ".lock").read().split()[0]
            assert int(holder) == os.getpid(), "a lock of its own, not the parent's"
        if n % 2:
            store.close()
            sys.exit(0)
        os._exit(0)
    children.append(child)
for _ in range(20):
    store.jobs.add(NewJob("parent"))
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
assert store.jobs.get(first).status == "active"
store.jobs.add(NewJob("after"))
print(store.database.integrity(), sum(store.queues.list()[0].counts.values()))
"""


def test_a_forked_child_uses_a_connection_of_its_own(store: Store) -> None:
    with python(FORK, path_of(store)) as program:
        assert output(program) == "ok 102"


def test_a_new_file_gives_the_space_of_what_is_forgotten_back_to_the_disk(store: Store) -> None:
    path = path_of(store)
    for _ in range(100):
        finish(store, add(store, payload="x" * 50_000))
    with store.write():
        store.database.integrity()
    store.history.prune(older=0)
    assert os.path.getsize(path) < 1_000_000
    assert rows(store, "PRAGMA freelist_count")[0][0] * 4096 < 100_000
    assert store.database.integrity() == "ok"


def test_the_log_stays_bounded_once_a_long_reader_ends_and_claims_go_on_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 28: what is written matters, not for how long. The file shrinks too, to the limit that was set for it."""
    path, bound = path_of(store), 2 * database.CHECKPOINT_PAGES
    monkeypatch.setattr(database, "JOURNAL_LIMIT", bound * 4096)
    reader = apsw.Connection(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM job").fetchall()
    with open_store(path, Settings()) as writer:
        assert isinstance(writer.database, database.SqliteDatabase)
        for _ in range(120):
            finish(writer, add(writer, payload="x" * 200_000))
        assert writer.database.log_pages() > 5 * bound / 2, "the reader keeps the log from being used again"
        assert os.path.getsize(path + "-wal") > 5 * bound / 2 * 4096
        reader.execute("COMMIT")
        pages = []
        for _ in range(80):
            finish(writer, add(writer, payload="x" * 200_000))
            pages.append(writer.database.log_pages())
        assert max(pages[-40:]) <= bound
        assert os.path.getsize(path + "-wal") <= bound * 4096
    reader.close()


def test_without_readers_the_log_is_used_again_from_its_start(store: Store) -> None:
    for _ in range(100):
        add(store, payload="x" * 200_000)
    size = os.path.getsize(path_of(store) + "-wal")
    assert size < 2 * database.CHECKPOINT_PAGES * 4096


HOLD = """
store = open_store(sys.argv[1], Settings())
with store.write() as tx:
    print("held", flush=True)
    input()
"""


def test_who_waits_for_the_write_lock_hears_who_holds_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.05)
    told: list[str] = []
    with python(HOLD, path_of(store)) as holder, open_store(path_of(store), Settings(), told=told.append) as waiter:
        assert line(holder) == "held"
        added: list[int] = []
        waiting = Thread(target=lambda: added.append(add(waiter)))
        waiting.start()
        eventually(lambda: told)
        assert f"waiting for the write lock, held by process {holder.pid}" in told[0] and added == []
        say(holder)
        waiting.join(30)
        assert added and len(told) == 1


def test_who_waits_behind_a_process_that_waits_for_another_program_hears_of_that_program(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both wait: one for SQLite's own lock with the fair one taken, the other for that."""
    monkeypatch.setattr(lock, "PATIENCE", 0.2)
    told: list[str] = []
    path = path_of(store)
    with ExitStack() as programs:
        stranger = programs.enter_context(python(LOCK_WITHOUT_QUEUEING, path))
        assert line(stranger) == "locked"
        first = programs.enter_context(python(HOLD, path))
        eventually(lambda: lock.blocker(path) == stranger.pid)
        eventually(lambda: not _takes_at_once(f"{path}.lock"))
        with open_store(path, Settings(), told=told.append) as waiter:
            waiting = Thread(target=lambda: add(waiter))
            waiting.start()
            eventually(lambda: told)
            say(stranger)
            assert line(first) == "held"
            say(first)
            waiting.join(30)
        assert f"held by process {stranger.pid} python" in told[0], (told, first.pid)


def _takes_at_once(path: str) -> bool:
    """Whether nobody has the fair lock."""
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_who_looks_behind_the_lock_hears_of_jobs_before_the_commit_and_others_after_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind, beside = store.database.listen(behind_lock=True), store.database.listen()
    heard: list[tuple[bool, bool]] = []
    commit = store.database._commit  # type: ignore[attr-defined]

    def listened() -> None:
        heard.append((behind.wait(0), beside.wait(0)))
        commit()
        heard.append((behind.wait(0), beside.wait(0)))

    monkeypatch.setattr(store.database, "_commit", listened)
    add(store)
    assert heard.pop(0) == (True, False), "no job can be seen yet, but who takes the lock next will see it"
    assert heard.pop(0) == (False, False)
    assert (behind.wait(0), beside.wait(0)) == (False, True), "once each"
    store.queues.pause("default")
    assert heard == [(False, False)] * 2, "a wish is read without the lock: nobody hears of it early"
    assert (behind.wait(0), beside.wait(0)) == (True, True)
    behind.close()
    beside.close()


def test_a_writer_that_is_killed_while_it_holds_the_lock_leaves_nothing_behind(store: Store) -> None:
    job = add(store)
    with python(HOLD, path_of(store)) as holder:
        assert line(holder) == "held"
        holder.kill()
        holder.wait()
    claim(store, job)
    assert status(store, job) == "active" and store.database.integrity() == "ok"


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 365 * DAY])
def test_a_jump_of_the_wall_clock_moves_no_lease(store: Store, monkeypatch: pytest.MonkeyPatch, jump: int) -> None:
    job = add(store)
    held = claim(store, job, lease=HOUR // 2)
    before, real = store.now(), clock.wall
    monkeypatch.setattr(clock, "wall", lambda: real() + jump)
    monkeypatch.setattr(database, "wall", lambda: real() + jump)
    assert abs(store.database.wall() - real() - jump) < HOUR // 4
    assert before <= store.now() < before + HOUR // 4
    with pytest.raises(Conflict):
        claim(store, job)
    with open_store(path_of(store), Settings()) as opened_later:
        assert before <= opened_later.now() < before + HOUR // 4, "the offset of this boot is kept"
        opened_later.reconcile()
    assert store.claims.renew(held).renewed_count == 1


def test_after_another_boot_the_clock_goes_on_and_never_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    add(store)
    before = store.now()
    real = clock.wall
    for module in (clock, database):
        monkeypatch.setattr(module, "since_boot", lambda: 5_000_000)
        monkeypatch.setattr(module, "wall", lambda: real() - DAY)
    monkeypatch.setattr(database, "boot_id", lambda: "another boot")
    with open_store(path_of(store), Settings()) as rebooted:
        (event,) = rebooted.events.after("0", 1)
        assert event.at <= rebooted.now() <= before + HOUR // 4, "though the wall clock is a day behind"
    with open_store(path_of(store), Settings()) as again:
        assert again.now() == rebooted.now(), "fixed once per boot"


def test_after_another_boot_the_clock_follows_the_wall_when_that_is_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = clock.wall
    for module in (clock, database):
        monkeypatch.setattr(module, "since_boot", lambda: 5_000_000)
        monkeypatch.setattr(module, "wall", lambda: real() + DAY)
    monkeypatch.setattr(database, "boot_id", lambda: "another boot")
    with open_store(path_of(store), Settings()) as rebooted:
        assert abs(rebooted.now() - real() - DAY) < HOUR // 4


LISTEN = """
store = open_store(sys.argv[1], Settings())
listener = store.database.listen(events=sys.argv[2] == "events")
print("listening", flush=True)
print(listener.wait(60), flush=True)
"""


@pytest.mark.parametrize("listens_for", ["claimable", "events"])
def test_a_notification_wakes_a_listener_in_another_process(store: Store, listens_for: str) -> None:
    with python(LISTEN, path_of(store), listens_for) as program:
        assert line(program) == "listening"
        add(store)
        assert output(program) == "True"


def test_only_claimable_work_or_a_directive_notifies_listeners_for_work(store: Store) -> None:
    job = add(store)
    work, events = store.database.listen(), store.database.listen(events=True)
    held = claim(store, job)
    assert eventually(lambda: events.wait(0)) and not work.wait(0)
    store.claims.release(held)
    assert eventually(lambda: work.wait(0))
    store.queues.pause()
    assert eventually(lambda: work.wait(0))
    work.close()
    events.close()


def test_a_call_that_changes_nothing_notifies_nobody(store: Store) -> None:
    add(store, key="k")
    work, events = store.database.listen(), store.database.listen(events=True)
    add(store, key="k")
    store.tick()
    store.reconcile()
    assert not work.wait(0.05) and not events.wait(0.05)
    work.close()
    events.close()
