"""What a worker counted and the database does not know yet. Pure: adding up, and what to do after a lost answer."""

from __future__ import annotations

from rota.core.record import Record

LONGEST_MESSAGE = 10_000


class Progress(Record):
    """What was done for one vectorizer. `successes` is None where no call was a success; `beside` came with errors."""

    vectorizer: int
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
            tuple(by_vectorizer[vectorizer] for vectorizer in sorted(by_vectorizer)),
        )


class Doubt(Record):
    """A parcel whose commit was not answered. `before` is the beat count it was sent on; None with a registration."""

    worker: object
    before: int | None
    parcel: Parcel

    def arrived(self, found: int | None) -> bool:
        """Whether it was committed, by the worker's beat count now (None: there is no such worker).

        Only the tracker itself beats its worker, so the count has moved exactly if the parcel arrived. A row that was
        there before and is gone was pruned: then nothing is sent again, because progress might be counted twice.
        """
        if self.before is None:
            return found is not None
        return found is None or found > self.before


def clean(message: str | None) -> str | None:
    """A message that PostgreSQL takes: no NUL, no half characters, not endless. One it refused would stop all beats."""
    if message is None:
        return None
    text = message.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"
