"""Changes that wait before their commit until a test lets them go on, each on a connection of its own."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from rota.store.postgres.database import PostgresDatabase
from tests.support.eventually import eventually
from tests.support.stores import again, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.store.store import Store

    Change = Callable[[Store], Any]

# Not `pg_stat_activity.wait_event`, which is empty for a moment when the server looks for a deadlock.
_WAITING = "SELECT 1 FROM pg_locks WHERE pid = :pid AND NOT granted"


class Running:
    """A change in a thread of its own, with its answer or the error that it ended with."""

    def __init__(self, store: Store, change: Change, held: bool = False) -> None:
        self._store = store
        self._change = change
        self._at_commit, self._go_on = Event(), Event()
        self._answer: Any = None
        self._thread = Thread(target=self._run)
        assert isinstance(store.database, PostgresDatabase)
        self._database = store.database
        self._pid = self._database.execute("test.pid", {})[0][0]
        if held:
            self._hold_commit()
        self._thread.start()

    def is_at_commit(self) -> bool:
        return self._at_commit.is_set()

    def waits(self) -> bool:
        """Return whether it waits for a lock of another change."""
        return bool(rows(self._store, _WAITING, pid=self._pid))

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def go_on(self) -> Any:
        """Let it commit, and return its answer."""
        self._go_on.set()
        return self.answer()

    def answer(self) -> Any:
        self._thread.join(60)
        assert not self._thread.is_alive(), "it never ended"
        return self._answer

    def end(self) -> None:
        self._go_on.set()
        self._thread.join(60)
        self._store.close()

    def _run(self) -> None:
        try:
            self._answer = self._change(self._store)
        except Exception as problem:
            self._answer = problem

    def _hold_commit(self) -> None:
        self._database.is_networked = False  # in steps, so that there is a moment before the commit
        session = self._database.session
        commit = session.commit

        def held() -> None:
            self._database.execute("test.pid", {})  # so that everything before it has reached the server
            self._at_commit.set()
            assert self._go_on.wait(60), "nobody let it go on"
            session.commit = commit  # type: ignore[method-assign]
            commit()

        session.commit = held  # type: ignore[method-assign]


@contextmanager
def in_flight(store: Store, change: Change) -> Iterator[Running]:
    """Start a change and stop it before its commit."""
    running = Running(_own(store), change, held=True)
    try:
        eventually(lambda: running.is_at_commit() or running.is_over())
        assert running.is_at_commit(), f"it did not get as far as its commit: {running.answer()!r}"
        yield running
    finally:
        running.end()


@contextmanager
def beside(store: Store, change: Change) -> Iterator[Running]:
    """Start a second change. When the block begins, it has ended or waits for the first one."""
    running = Running(_own(store), change)
    try:
        eventually(lambda: running.is_over() or running.waits())
        yield running
    finally:
        running.end()


def _own(store: Store) -> Store:
    other = again(store)
    assert isinstance(other.database, PostgresDatabase)
    other.database.texts.own["test.pid"] = "SELECT pg_backend_pid()"
    return other
