"""What workers have counted, and the one transaction that brings it to the database exactly once.

The answer to a commit may be lost, and the functions take no marker. So every transaction first takes an advisory lock
that is this account's own, and waits for the answer: once a beat has been sent, its transaction holds the lock until it
has ended, one way or the other. Whoever holds the lock next reads the workers' beat counts, and those tell.
"""

from __future__ import annotations

import logging
import secrets
import threading
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, cast

from rota.tracking import progress
from rota.tracking.delta import Parcel, Sent, arrived
from rota.tracking.postgres import statement

if TYPE_CHECKING:
    from uuid import UUID

    from rota.core.times import Duration
    from rota.tracking.postgres import Connection

MOST_LEFT = 10_000  # workers that are gone and could not be reported, while the database is away

log = logging.getLogger("rota.tracking")


class Entry:
    """One worker: its id in the database once it is registered, what it counted since, and whether it left."""

    def __init__(self) -> None:
        self.worker: UUID | None = None
        self.pending = Parcel()
        self.left = False


class Account:
    """The workers that one thread beats, all in one statement. `beat` is for that thread, the rest for any."""

    def __init__(self, version: str, every: Duration) -> None:
        self._start = {"version": version, "every": timedelta(microseconds=every)}
        self._key = secrets.randbits(63)
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._doubt: list[tuple[Entry, Sent]] = []
        self._progress = progress.Reports()

    def open(self) -> Entry:
        """A worker has come; it is registered with the next beat."""
        entry = Entry()
        with self._lock:
            self._entries.append(entry)
        return entry

    def add(self, entry: Entry, parcel: Parcel) -> None:
        with self._lock:
            entry.pending = entry.pending.plus(parcel)

    def leave(self, entry: Entry) -> None:
        """A worker is gone: the next beat is its last."""
        with self._lock:
            entry.left = True
            gone = [each for each in self._entries if each.left]
            if len(gone) > MOST_LEFT:
                self._entries.remove(gone[0])
                log.warning("what a worker that is gone had counted is forgotten: %s", gone[0].pending)

    def forget_left(self) -> None:
        """There is nothing to report to: who is gone has nowhere to be told of."""
        with self._lock:
            self._entries = [each for each in self._entries if not each.left]

    @property
    def is_empty(self) -> bool:
        return not self._entries

    @property
    def is_registered(self) -> bool:
        """Whether any of its workers has been in the database."""
        with self._lock:
            return bool(self._doubt) or any(entry.worker is not None for entry in self._entries)

    @property
    def unsent(self) -> Parcel:
        """What is not known to have arrived."""
        with self._lock:
            parcels = [*(sent.parcel for _, sent in self._doubt), *(entry.pending for entry in self._entries)]
        return reduce(Parcel.plus, parcels, Parcel())

    def beat(self, connection: Connection, everyone: bool = True) -> None:
        """Register where needed, beat, and report progress, all or nothing. What fails is sent again next time.

        Unless it is time for everyone, only those beat who are new, are gone, or have progress to report.
        """
        taken: list[tuple[Entry, Sent]] = []
        try:
            with connection.transaction():
                connection.execute(statement("client.fence"), {"key": self._key})
                taken = self._take(self._counts(connection), everyone)
                taken = self._registered(connection, taken)
                self._send(connection, taken)
                refused = self._progress.send(connection, [(sent.worker, sent.parcel.progress) for _, sent in taken])
                taken = self._without(taken, refused)
                self._doubt = taken  # from here on only the counts can tell
        except BaseException:
            if not self._doubt:
                self._put_back(taken)
            raise
        self._progress.keep()
        with self._lock:
            self._doubt = []
            for entry, sent in taken:
                entry.worker = cast("UUID", sent.worker)
            gone = {id(entry) for entry, _ in taken if entry.left and entry.pending == Parcel()}
            self._entries = [entry for entry in self._entries if id(entry) not in gone]

    def _counts(self, connection: Connection) -> dict[object, int]:
        """The beat counts of the workers that are registered; what did not arrive the last time is put back."""
        doubt = self._doubt
        workers = {entry.worker for entry in self._entries} | {sent.worker for _, sent in doubt}
        known = [worker for worker in workers if worker is not None]
        rows = connection.execute(statement("client.count"), {"workers": known}).fetchall() if known else []
        found = cast("dict[object, int]", dict(cast("list[tuple[UUID, int]]", rows)))
        if doubt:
            came = arrived([sent for _, sent in doubt], found)
            with self._lock:
                self._doubt = []
                for entry, sent in doubt:
                    if came:
                        entry.worker = cast("UUID", sent.worker)
                    else:
                        entry.pending = sent.parcel.plus(entry.pending)
        return found

    def _take(self, found: dict[object, int], everyone: bool) -> list[tuple[Entry, Sent]]:
        """What goes now; a worker whose row is gone goes without an id, and gets a new one."""
        taken = []
        with self._lock:
            for entry in self._entries:
                if entry.worker is not None and entry.worker not in found:
                    log.info("worker %s is not in the database any more: it registers anew", entry.worker)
                    entry.worker = None
                if everyone or entry.worker is None or entry.left or entry.pending.progress:
                    taken.append((entry, Sent(entry.worker, found.get(entry.worker), entry.pending)))
                    entry.pending = Parcel()
        return taken

    def _registered(self, connection: Connection, taken: list[tuple[Entry, Sent]]) -> list[tuple[Entry, Sent]]:
        """The same, each with an id."""
        new = sum(sent.worker is None for _, sent in taken)
        rows = connection.execute(statement("client.start"), {**self._start, "times": new}).fetchall() if new else []
        ids = iter(rows)
        return [(entry, sent if sent.worker else sent.replace(worker=next(ids)[0])) for entry, sent in taken]

    def _send(self, connection: Connection, taken: list[tuple[Entry, Sent]]) -> None:
        if not taken:
            return
        # In one order, so that two who change the same rows do not wait in a circle.
        sent = sorted((sent for _, sent in taken), key=lambda each: cast("UUID", each.worker))
        values = {
            "workers": [each.worker for each in sent],
            "successes": [each.parcel.successes for each in sent],
            "errors": [each.parcel.errors for each in sent],
            "messages": [each.parcel.message for each in sent],
        }
        connection.execute(statement("client.beat"), values)

    def _without(
        self, taken: list[tuple[Entry, Sent]], refused: dict[object, progress.Several]
    ) -> list[tuple[Entry, Sent]]:
        """What was sent; progress that was refused waits for the next time."""
        left = []
        for entry, sent in taken:
            waits = refused.get(sent.worker, ())
            if waits:
                self._put_back([(entry, sent.replace(parcel=Parcel(progress=waits)))])
            gone = tuple(each for each in sent.parcel.progress if each not in waits)
            left.append((entry, sent.replace(parcel=sent.parcel.replace(progress=gone))))
        return left

    def _put_back(self, taken: list[tuple[Entry, Sent]]) -> None:
        with self._lock:
            for entry, sent in taken:
                entry.pending = sent.parcel.plus(entry.pending)
