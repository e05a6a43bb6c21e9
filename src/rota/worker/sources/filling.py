"""A declared source, and one pass over it: read keys, leave out what is known, add the rest in one transaction."""

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
    """What `app.source` makes of a function. Call it to get the keys that it finds now."""

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
        """One pass, as the handler of the source's internal job; it comes again after `every`."""
        from rota.store.sources import Found

        with self._app.connect() as store:
            if isinstance(self.find, SqlSource):
                self.find.keep_off(store.database.path)
            began = self._began(store, ctx.job_id)
            found, exhausted = list[Found](), False
            if not store.sources.has_enough(self.declared.name):
                held = store.sources.held(self.declared.name)  # before anything is read: see there
                found, exhausted = self._read(store, began, held, ctx)
            filler = (ctx.job_id, ctx.token)
            filled = store.sources.fill(self.declared.name, filler, found, self.like, exhausted)
        if filled.repeated:
            ctx.log(told(self.declared, filled.repeated))
        raise Snooze(f"{self.declared.every // MILLISECOND}ms")

    def found(self) -> Iterator[Found]:
        """What it yields now, checked."""
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
        """What jobs of its task have; a task of another program has what jobs have by default."""
        return self._app.template(self.declared.task)

    def _began(self, store: Store, job: int) -> Instant:
        try:
            began = store.jobs.get(job).claimed_at
        except NotFound:
            began = None
        if began is None:
            text = f"job {job} is not in {store.database.path}: the app opens another database than its orchestrator"
            raise BadInput(text)
        return began

    def _read(self, store: Store, began: Instant, held: set[str], ctx: Context) -> tuple[list[Found], bool]:
        """Enough for a batch, or all there is; a source that yields nothing new is left after a long while."""
        declared, read = self.declared, 0
        size = min(CHUNK, declared.batch)
        fresh: dict[str, Found] = {}
        repeated: dict[str, Found] = {}
        items = self.found()
        try:
            while len(fresh) < declared.batch and read < MOST_READ and not ctx.stopping and not ctx.lost:
                chunk = list(islice(items, size))
                sifted = store.sources.sift(declared.name, [each for each in chunk if each.key not in held], began)
                fresh.update((each.key, each) for each in sifted.fresh)
                if len(repeated) < MOST_REPEATED:
                    repeated.update((each.key, each) for each in sifted.repeated)
                read += len(chunk)
                if len(chunk) < size:
                    return [*fresh.values(), *repeated.values()], True
        finally:
            items.close()  # type: ignore[attr-defined]
        return [*fresh.values(), *repeated.values()], False


def as_pair(name: str, item: Any) -> tuple[str, str | None]:
    """The key and the payload's text of what a source yielded; a key alone is the payload too."""
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


def told(declared: Declared, keys: list[str]) -> str:
    """What people read about keys that come again and again."""
    some = ", ".join(map(repr, keys[:3])) + (f" and {len(keys) - 3:,} more" if len(keys) > 3 else "")
    return (
        f"source {declared.name} yielded {some} again after more than {declared.repeats} repeats: held back; "
        f"does {declared.task} leave a mark that the source looks at?"
    )
