"""A declared source, and one pass over it: read keys, leave out known ones, add the rest in one transaction."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from rota.core.errors import BadInput, NotFound
from rota.core.source import LONGEST_KEY
from rota.core.times import MILLISECOND
from rota.worker.handler import Snooze
from rota.worker.sources.sql_source import SqlSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rota.app import App
    from rota.core.job import NewJob
    from rota.core.source import Declared
    from rota.core.times import Instant
    from rota.store.sources import Found
    from rota.store.store import Store
    from rota.worker.context import Context

CHUNK = 500
MOST_READ = 1_000_000
MOST_REPEATED = 1_000


class Source:
    """The result of `app.source`. Call it to get the keys that the function yields now."""

    def __init__(
        self, app: App, find: Callable[[], Iterable[Any]], declared: Declared, vectorizer: int | str | None = None
    ) -> None:
        self._app = app
        self.find = find
        self.declared = declared
        self.vectorizer = vectorizer
        self.__doc__ = find.__doc__
        self.__name__ = declared.name

    def __call__(self) -> Iterable[Any]:
        return self.find()

    def fill(self, ctx: Context) -> None:
        """Make one pass, as the handler of the source's internal job, which snoozes for `every` after it."""
        from rota.store.sources import Found

        with self._app.connect() as store:
            if isinstance(self.find, SqlSource):
                self.find.keep_off(store.database.path)
            claimed_at = self._claimed_at(store, ctx.job_id)
            items, exhausted = list[Found](), False
            if not store.sources.has_enough(self.declared.name):
                # Before anything is read: a job may succeed at a time before its commit (decision 16).
                held = store.sources.held(self.declared.name)
                items, exhausted = self._read(store, claimed_at, held, ctx)
            filler = (ctx.job_id, ctx.token)
            filled = store.sources.fill(self.declared.name, filler, items, self.like, exhausted)
        if filled.repeated:
            ctx.log(held_back_message(self.declared, filled.repeated))
        # The filler is never done: its due time is the next pass (decision 16).
        raise Snooze(f"{self.declared.every // MILLISECOND}ms")

    def found(self) -> Iterator[Found]:
        """Yield what the function finds now, checked."""
        from rota.store.sources import Found

        items = iter(self.find())
        try:
            for item in items:
                key, payload = as_pair(self.declared.name, item)
                yield Found(key, payload)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    @property
    def like(self) -> NewJob:
        """The template of its jobs; the defaults if the task belongs to another program."""
        return self._app.template(self.declared.task)

    def _claimed_at(self, store: Store, job: int) -> Instant:
        try:
            claimed_at = store.jobs.get(job).claimed_at
        except NotFound:
            claimed_at = None
        if claimed_at is None:
            text = f"job {job} is not in {store.database.path}: the app opens another database than its orchestrator"
            raise BadInput(text)
        return claimed_at

    def _read(self, store: Store, claimed_at: Instant, held: set[str], ctx: Context) -> tuple[list[Found], bool]:
        """Read enough for a batch, or all there is; give up after many items that are not new."""
        declared, read = self.declared, 0
        size = min(CHUNK, declared.batch)
        fresh: dict[str, Found] = {}
        repeated: dict[str, Found] = {}
        items = self.found()
        try:
            while len(fresh) < declared.batch and read < MOST_READ and not ctx.stopping and not ctx.lost:
                chunk = list(islice(items, size))
                sifted = store.sources.sift(declared.name, [item for item in chunk if item.key not in held], claimed_at)
                fresh.update((item.key, item) for item in sifted.fresh)
                if len(repeated) < MOST_REPEATED:
                    repeated.update((item.key, item) for item in sifted.repeated)
                read += len(chunk)
                if len(chunk) < size:
                    return [*fresh.values(), *repeated.values()], True
        finally:
            items.close()  # type: ignore[attr-defined]
        return [*fresh.values(), *repeated.values()], False


def as_pair(name: str, item: Any) -> tuple[str, str | None]:
    """Return key and payload text of an item that a source yielded; a key alone is its own payload."""
    from rota.store.jobs.payload import encode

    is_pair = isinstance(item, tuple)
    if is_pair and len(item) != 2:
        raise BadInput(f"source {name} yielded {item!r:.80}: yield a key, or a pair (key, payload)")
    key, payload = item if is_pair else (item, item)
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise BadInput(f"source {name} yielded the key {key!r:.80}: a key is a text or a whole number")
    text = str(key)
    if not text or len(text) > LONGEST_KEY or "\0" in text:
        raise BadInput(
            f"source {name} yielded the key {text!r:.80}: it has from 1 to {LONGEST_KEY} characters, none of them NUL"
        )
    return text, encode(payload, f"payload of key {text!r:.80}")


def held_back_message(declared: Declared, keys: list[str]) -> str:
    """Return the log message about keys that are held back."""
    some = ", ".join(map(repr, keys[:3])) + (f" and {len(keys) - 3:,} more" if len(keys) > 3 else "")
    return (
        f"source {declared.name} yielded {some} again after more than {declared.repeats} repeats: held back; "
        f"does {declared.task} leave a mark that the source looks at?"
    )
