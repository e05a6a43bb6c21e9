"""Counts that the database does not have yet: adding them up, and whether a lost answer was a commit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_MESSAGE = 10_000


class Progress(Record):
    """What was done for one vectorizer, named by its id, or by its source table until the id is known.

    `successes` is None if no call reported a success; `beside` counts successes of calls that also reported an error.
    """

    vectorizer: int | str
    successes: int | None = None
    beside: int = 0
    errors: int = 0
    message: str | None = None

    def plus(self, newer: Progress) -> Progress:
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
    """What one worker's heartbeat carried. `before` is its heartbeat count before it; None for a registration."""

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
