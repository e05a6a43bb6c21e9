"""What a worker counted and the database does not know yet. Pure: adding up, and what to do after a lost answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_MESSAGE = 10_000


class Progress(Record):
    """What was done for one vectorizer. `successes` is None where no call was a success; `beside` came with errors.

    The vectorizer goes by its id, or by the table that it reads until the database has told its id.
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


class Parcel(Record):
    """The deltas of one beat, with the progress that goes along; by vectorizer, so that two workers never deadlock."""

    successes: int = 0
    errors: int = 0
    message: str | None = None
    progress: tuple[Progress, ...] = ()

    def plus(self, newer: Parcel) -> Parcel:
        """Both together; the newer message is the one that counts."""
        by_vectorizer = {each.vectorizer: each for each in self.progress}
        for each in newer.progress:
            known = by_vectorizer.get(each.vectorizer)
            by_vectorizer[each.vectorizer] = known.plus(each) if known else each
        return Parcel(
            self.successes + newer.successes,
            self.errors + newer.errors,
            self.message if newer.message is None else newer.message,
            tuple(by_vectorizer[vectorizer] for vectorizer in sorted(by_vectorizer, key=_order)),
        )


class Sent(Record):
    """What one worker's beat carried. `before` is the beat count it was sent on; None with a registration."""

    worker: object
    before: int | None
    parcel: Parcel


def arrived(sent: Sequence[Sent], found: Mapping[object, int]) -> bool:
    """Whether a transaction whose commit was not answered arrived, by the beat counts that its workers have now.

    Only the account itself beats its workers, so the counts have moved exactly if it arrived; all of them, or none.
    Rows that were there before and are gone were pruned: then nothing is sent again, or progress might count twice.
    """
    for each in sent:
        if each.worker in found:
            return each.before is None or found[each.worker] > each.before
    return any(each.before is not None for each in sent)


def clean(message: str | None) -> str | None:
    """A message that PostgreSQL takes: no NUL, no half characters, not endless. One it refused would stop all beats."""
    if message is None:
        return None
    text = message.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"


def _order(vectorizer: int | str) -> tuple[bool, int | str]:
    return isinstance(vectorizer, str), vectorizer
