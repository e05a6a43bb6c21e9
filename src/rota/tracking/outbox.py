"""The counts of workers, and the transaction that applies them to the database exactly once.

The answer to a COMMIT may be lost, and the functions take no marker. So every transaction first takes an advisory lock
of this outbox: a transaction that was sent holds it until it is committed or rolled back. The next one waits for the
lock, and then the heartbeat counts of the workers show whether the one before was applied.
"""

from __future__ import annotations

import logging
import secrets
import threading
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, cast

from rota.core.record import Record
from rota.tracking.connections import statement
from rota.tracking.progress import Reports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from rota.core.times import Duration
    from rota.tracking.connections import Connection
    from rota.tracking.progress import Several

LONGEST_MESSAGE = 10_000
MOST_LEFT = 10_000  # workers that left while the database was away
log = logging.getLogger("rota.tracking")


class Progress(Record):
    """The progress of one vectorizer, named by its id, or by its source table until the id is known.

    `successes` is None if no call reported a success; `beside` counts successes of calls that also reported an error.
    """

    vectorizer: int | str
    successes: int | None = None
    beside: int = 0
    errors: int = 0
    message: str | None = None

    def plus(self, newer: Progress) -> Progress:
        """Add up both; the newer message wins."""
        if self.successes is None or newer.successes is None:
            successes = self.successes if newer.successes is None else newer.successes
        else:
            successes = self.successes + newer.successes
        beside, errors = self.beside + newer.beside, self.errors + newer.errors
        message = self.message if newer.message is None else newer.message
        return Progress(self.vectorizer, successes, beside, errors, message)


class Delta(Record):
    """The counts of one heartbeat, with its progress ordered by vectorizer, so that two workers never deadlock."""

    successes: int = 0
    errors: int = 0
    message: str | None = None
    progress: tuple[Progress, ...] = ()

    def plus(self, newer: Delta) -> Delta:
        """Add up both; the newer message wins."""
        by_vectorizer = {progress.vectorizer: progress for progress in self.progress}
        for progress in newer.progress:
            older = by_vectorizer.get(progress.vectorizer)
            by_vectorizer[progress.vectorizer] = older.plus(progress) if older else progress
        return Delta(
            self.successes + newer.successes,
            self.errors + newer.errors,
            self.message if newer.message is None else newer.message,
            tuple(by_vectorizer[vectorizer] for vectorizer in sorted(by_vectorizer, key=_order)),
        )


class Sent(Record):
    """One worker's heartbeat as it was sent. `before` is its heartbeat count before; None for a registration."""

    worker: object
    before: int | None
    delta: Delta


def arrived(sent: Sequence[Sent], counts: Mapping[object, int]) -> bool:
    """Return whether a transaction was applied, though the answer to its COMMIT was lost.

    Nobody but the outbox sends heartbeats of its workers, so their counts have moved if and only if it was applied;
    all of them, or none. Rows that existed before and are gone were pruned: then nothing is sent again, because
    progress might count twice.
    """
    for heartbeat in sent:
        if heartbeat.worker in counts:
            return heartbeat.before is None or counts[heartbeat.worker] > heartbeat.before
    return any(heartbeat.before is not None for heartbeat in sent)


def clean(message: str | None) -> str | None:
    """Make a message that PostgreSQL accepts: no NUL, no lone surrogates, not too long."""
    if message is None:
        return None
    text = message.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"


def _order(vectorizer: int | str) -> tuple[bool, int | str]:
    return isinstance(vectorizer, str), vectorizer


class Entry:
    """One worker: its id in the database once it is registered, its unsent counts, and whether it has left."""

    def __init__(self) -> None:
        self.worker: UUID | None = None
        self.pending = Delta()
        self.left = False


class Outbox:
    """Workers whose heartbeats are sent in one statement. One thread calls `send`; the rest is for any thread."""

    def __init__(self, version: str, every: Duration) -> None:
        self._start = {"version": version, "every": timedelta(microseconds=every)}
        # Identifies this outbox in the lock that all of its transactions take; it must differ from every other's.
        self._key = secrets.randbits(63)
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._in_doubt: list[tuple[Entry, Sent]] = []
        self._progress = Reports()

    def open(self) -> Entry:
        """Add a worker; the next heartbeat registers it."""
        entry = Entry()
        with self._lock:
            self._entries.append(entry)
        return entry

    def add(self, entry: Entry, delta: Delta) -> None:
        """Add to the counts of a worker."""
        with self._lock:
            entry.pending = entry.pending.plus(delta)

    def leave(self, entry: Entry) -> None:
        """Mark a worker as gone: its next heartbeat is the last."""
        with self._lock:
            entry.left = True
            gone = [other for other in self._entries if other.left]
            if len(gone) > MOST_LEFT:
                self._entries.remove(gone[0])
                log.warning("what a worker that is gone had counted is forgotten: %s", gone[0].pending)

    def forget_left(self) -> None:
        """Forget the workers that are gone, because there are no tables to report them to."""
        with self._lock:
            self._entries = [entry for entry in self._entries if not entry.left]

    @property
    def is_empty(self) -> bool:
        return not self._entries

    @property
    def is_registered(self) -> bool:
        """Whether any of its workers was ever registered."""
        with self._lock:
            return bool(self._in_doubt) or any(entry.worker is not None for entry in self._entries)

    @property
    def unsent(self) -> Delta:
        """The counts that are not known to have arrived."""
        with self._lock:
            deltas = [*(sent.delta for _, sent in self._in_doubt), *(entry.pending for entry in self._entries)]
        return reduce(Delta.plus, deltas, Delta())

    def send(self, connection: Connection, everyone: bool = True) -> None:
        """Register new workers, send heartbeats and progress, all or nothing. What fails is sent again next time.

        Without `everyone` this is done only for workers that are new, are gone, or have progress to report.
        """
        taken: list[tuple[Entry, Sent]] = []
        try:
            with connection.transaction():
                # Waits for a transaction whose answer was lost: only after it are the counts final (decision 19).
                connection.execute(statement("client.fence"), {"key": self._key})
                taken = self._take(self._counts(connection), everyone)
                taken = self._registered(connection, taken)
                self._heartbeat(connection, taken)
                refused = self._progress.send(connection, [(sent.worker, sent.delta.progress) for _, sent in taken])
                taken = self._without(taken, refused)
                # From here on only the heartbeat counts show whether the transaction was applied.
                self._in_doubt = taken
        except BaseException:
            if not self._in_doubt:
                self._put_back(taken)
            raise
        self._progress.keep()
        with self._lock:
            self._in_doubt = []
            for entry, sent in taken:
                entry.worker = cast("UUID", sent.worker)
            gone = {id(entry) for entry, _ in taken if entry.left and entry.pending == Delta()}
            self._entries = [entry for entry in self._entries if id(entry) not in gone]

    def _counts(self, connection: Connection) -> dict[object, int]:
        """Read the heartbeat counts of the registered workers, and put back what did not arrive the last time."""
        in_doubt = self._in_doubt
        workers = {entry.worker for entry in self._entries} | {sent.worker for _, sent in in_doubt}
        ids = [worker for worker in workers if worker is not None]
        rows = connection.execute(statement("client.count"), {"workers": ids}).fetchall() if ids else []
        counts = cast("dict[object, int]", dict(cast("list[tuple[UUID, int]]", rows)))
        if in_doubt:
            has_arrived = arrived([sent for _, sent in in_doubt], counts)
            with self._lock:
                self._in_doubt = []
                for entry, sent in in_doubt:
                    if has_arrived:
                        entry.worker = cast("UUID", sent.worker)
                    else:
                        entry.pending = sent.delta.plus(entry.pending)
        return counts

    def _take(self, counts: dict[object, int], everyone: bool) -> list[tuple[Entry, Sent]]:
        """Take what is sent now; a worker whose row is gone loses its id and is registered again."""
        taken = []
        with self._lock:
            for entry in self._entries:
                if entry.worker is not None and entry.worker not in counts:
                    log.info("worker %s is not in the database any more: it registers anew", entry.worker)
                    entry.worker = None
                if everyone or entry.worker is None or entry.left or entry.pending.progress:
                    taken.append((entry, Sent(entry.worker, counts.get(entry.worker), entry.pending)))
                    entry.pending = Delta()
        return taken

    def _registered(self, connection: Connection, taken: list[tuple[Entry, Sent]]) -> list[tuple[Entry, Sent]]:
        """Register the workers that have no id yet; return all of them with their ids."""
        new = sum(sent.worker is None for _, sent in taken)
        rows = connection.execute(statement("client.start"), {**self._start, "times": new}).fetchall() if new else []
        ids = iter(rows)
        return [(entry, sent if sent.worker else sent.replace(worker=next(ids)[0])) for entry, sent in taken]

    def _heartbeat(self, connection: Connection, taken: list[tuple[Entry, Sent]]) -> None:
        if not taken:
            return
        # Ordered, so that two transactions that change the same rows do not deadlock.
        sent = sorted((sent for _, sent in taken), key=lambda heartbeat: cast("UUID", heartbeat.worker))
        values = {
            "workers": [heartbeat.worker for heartbeat in sent],
            "successes": [heartbeat.delta.successes for heartbeat in sent],
            "errors": [heartbeat.delta.errors for heartbeat in sent],
            "messages": [heartbeat.delta.message for heartbeat in sent],
        }
        connection.execute(statement("client.heartbeat"), values)

    def _without(self, taken: list[tuple[Entry, Sent]], refused: dict[object, Several]) -> list[tuple[Entry, Sent]]:
        """Return what was sent; progress that was refused is put back for the next time."""
        accepted = []
        for entry, sent in taken:
            waiting = refused.get(sent.worker, ())
            if waiting:
                self._put_back([(entry, sent.replace(delta=Delta(progress=waiting)))])
            reported = tuple(progress for progress in sent.delta.progress if progress not in waiting)
            accepted.append((entry, sent.replace(delta=sent.delta.replace(progress=reported))))
        return accepted

    def _put_back(self, taken: list[tuple[Entry, Sent]]) -> None:
        with self._lock:
            for entry, sent in taken:
                entry.pending = sent.delta.plus(entry.pending)
