"""The hub of the live feed: it reads the event log once for any number of readers, each with a bounded buffer."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, TypeVar

from rota.api.errors import TooMany
from rota.api.json_body import encode_document
from rota.api.stream.notifications import Notifications
from rota.api.stream.readers import Reader, Share
from rota.core.errors import RotaError
from rota.core.event import TokenChanged
from rota.core.times import format_instant
from rota.core.topic import matches
from rota.live import feed
from rota.live.feed import EVERYTHING, PAGE, Feed
from rota.live.throughput import Throughput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from rota.api.metrics import ProcessMetrics
    from rota.api.store_pool import StorePool
    from rota.core.event import Event
    from rota.documents import Document
    from rota.live.feed import Change
    from rota.store.store import Store

FLUSH_EVERY, READ_EVERY, READ_FOR_MANY_EVERY, KEEP_ALIVE = 0.1, 0.05, 0.08, 15.0
MANY_READERS, AT_ONCE = 100, 20
MOST_READERS = 2000
MOST_PUBLISHED_AT_ONCE = 500
MOST_REPLAYED, MOST_READ_BACK = 2000, 10_000  # moves that a reader missed, and events searched for them
MOST_SEED = 2000  # events from which throughput is computed before the hub has read any
MOST_JOBS = 200  # moves of one event; for more, readers get a resync
T = TypeVar("T")
_log = logging.getLogger("rota.http")


class Hub:
    """Reads the event log while there are readers, and gives each change to the readers of its topics."""

    def __init__(self, stores: StorePool, poll: float, metrics: ProcessMetrics) -> None:
        self._stores = stores
        self._poll = poll
        self._metrics = metrics
        self._notifications = Notifications(stores, events=True)
        self._readers: dict[tuple[str, ...], set[Reader]] = {}
        self._shares: dict[str | None, Share] = {}
        self._feed: Feed | None = None
        self._published = ""  # the cursor up to which every change was given to the readers
        self._tail: asyncio.Task[None] | None = None
        self._keep_alive: asyncio.Task[None] | None = None
        self._flushed = 0.0
        self._is_stale = False
        self._is_failing = False
        self._revoked: set[str] = set()
        self._throughput = Throughput()
        self._turn = asyncio.Lock()

    async def join(self, patterns: tuple[str, ...], after: str | None, token_id: str | None) -> tuple[Reader, bytes]:
        """Add a reader. Returns it with its first messages: a snapshot, or the changes since the event id `after`."""
        reader = Reader(patterns, token_id)
        self._reserve(reader)  # Before the first await: many readers may join at once.
        try:
            await self._notifications.open()
            async with self._turn:
                await self._advance()
                first = await self._first(patterns, after)
                self._readers.setdefault(patterns, set()).add(reader)
        except BaseException:
            self._release(reader)
            raise
        if self._tail is None or self._tail.done():
            self._tail = asyncio.create_task(self._follow())
        if self._keep_alive is None or self._keep_alive.done():
            self._keep_alive = asyncio.create_task(self._send_keep_alives())
        return reader, first

    def leave(self, reader: Reader) -> None:
        group = self._readers.get(reader.patterns, set())
        if reader in group:
            group.remove(reader)
            self._release(reader)
        if not group:
            self._readers.pop(reader.patterns, None)

    def _reserve(self, reader: Reader) -> None:
        """Count a reader against the limits of its token and of the hub, or refuse it."""
        if sum(share.readers for share in self._shares.values()) >= MOST_READERS:
            raise TooMany(f"there are {MOST_READERS:,} readers of the feed already: close some of them")
        share = self._shares.get(reader.token_id) or Share()
        share.add(reader.patterns)
        self._shares[reader.token_id] = share

    def _release(self, reader: Reader) -> None:
        share = self._shares[reader.token_id]
        share.remove(reader.patterns)
        if not share.readers:
            del self._shares[reader.token_id]

    def readers(self) -> int:
        return sum(map(len, self._readers.values()))

    async def resync(self, reader: Reader) -> bytes:
        """Return a resync and a snapshot for a reader whose buffer was dropped."""
        async with self._turn:
            await self._advance()
            reader.take()
            reader.is_lost = False
            return await self._first(reader.patterns, None, lost=True)

    async def close(self) -> None:
        for reader in self._all():
            reader.end()
        for task in (self._tail, self._keep_alive):
            if task is not None:
                task.cancel()
        self._notifications.close()

    async def _follow(self) -> None:
        """Read the log until the last reader leaves. An unavailable store is tried again."""
        while True:
            count, began = self._notifications.count, time.monotonic()
            async with self._turn:
                if not self._readers:
                    self._feed = self._tail = None
                    return
                succeeded = await self._try_to_advance()
            if succeeded and self._feed is not None and self._feed.is_behind:
                continue
            wait = self._flushed + FLUSH_EVERY - time.monotonic() if self._is_stale else self._poll
            await self._notifications.wait(count, wait)
            # With many readers the log is read less often, which leaves the loop time for requests (decision 26).
            every = READ_EVERY if self.readers() < MANY_READERS else READ_FOR_MANY_EVERY
            await asyncio.sleep(began + every - time.monotonic())

    async def _try_to_advance(self) -> bool:
        """Advance; after an error of the store tell the readers, after a bug resync them."""
        try:
            await self._advance()
        except RotaError as problem:
            self._is_stale = False
            await self._publish_failure(str(problem))
        except Exception:  # A bug, or a fact of a newer version: silence would hide lost changes.
            _log.exception("the live feed failed: its readers begin anew")
            self._resync_all()
        else:
            return True
        return False

    def _resync_all(self) -> None:
        """Give every reader a resync and a snapshot, in place of changes that could not be published."""
        self._feed = None
        for reader in self._all():
            reader.lose()

    async def _send_keep_alives(self) -> None:
        """Wake every reader now and then, so that clients see that their connection is alive."""
        # One task for all readers instead of a timer for each (decision 26).
        while self._readers:
            await asyncio.sleep(KEEP_ALIVE)
            async for reader in in_turns(self._all()):
                reader.wake()

    async def _publish_failure(self, problem: str) -> None:
        """Publish once that the store fails. Once it answers, its health is published again."""
        if self._feed is not None and not self._is_failing:
            self._is_failing = True
            await self._publish([self._feed.failure(problem, time.time_ns() // 1000)])

    async def _advance(self) -> None:
        """Publish what happened since the last time. Each reader is woken once."""
        if self._feed is not None and self._feed.cursor != self._published:
            self._resync_all()  # An error came between reading and publishing.
        patterns = self._patterns()
        changes, lag = await self._stores.ask(lambda store: self._read(store, patterns))
        self._is_failing = False
        await self._publish(changes)
        self._published = self._reading().cursor
        self._metrics.set_lag(lag)
        for reader in self._all():
            if reader.token_id in self._revoked:
                reader.end()
        self._revoked.clear()

    def _read(self, store: Store, patterns: set[str]) -> tuple[list[Change], int | None]:
        """Return new moves, changed states if they are due, and the age of the last event. Runs in the thread."""
        if self._feed is None:
            with store.database.read():  # One snapshot: no event is counted twice.
                self._feed = Feed(store, most=MOST_JOBS, on_event=self._note)
                self._throughput = _seeded_throughput(store)
        self._feed.subscribe(sorted(patterns))
        before, changes = self._feed.cursor, self._feed.moves()
        moved = self._feed.cursor != before
        lag = store.now() - self._feed.last_at if moved and self._feed.last_at is not None else None
        now = time.monotonic()
        self._is_stale |= moved or now - self._flushed >= self._poll
        # Moves are published one by one, states only as they are now and at most ten times a second (decision 17).
        if self._is_stale and self._readers and now - self._flushed >= FLUSH_EVERY:
            self._flushed, self._is_stale = now, False
            changes = [*changes, *self._feed.states()]
        return changes, lag

    def _patterns(self) -> set[str]:
        """Return the patterns of all readers. Call it in the event loop, where readers are added and removed."""
        return set().union(*(share.patterns for share in self._shares.values()))

    def _reading(self) -> Feed:
        assert self._feed is not None
        return self._feed

    async def throughput(self) -> Document:
        """Return the throughput of the last minutes, step by step."""
        return await self._stores.ask(self._throughput_document)

    def _throughput_document(self, store: Store) -> Document:
        """Count while the hub reads; without readers, compute from the last events of the log. Runs in the thread."""
        now, throughput = store.now(), self._throughput if self._feed is not None else _seeded_throughput(store)
        return {**throughput.document(now), "until": format_instant(now)}

    def _note(self, event: Event) -> None:
        self._throughput.note(event)
        self._revoked.update(fact.subject for fact in event.of(TokenChanged, "revoke"))

    async def _first(self, patterns: tuple[str, ...], after: str | None, lost: bool = False) -> bytes:
        everyones = self._patterns().union(patterns or EVERYTHING)
        return await self._stores.ask(lambda store: self._start(store, patterns, everyones, after, lost))

    def _start(
        self, store: Store, patterns: tuple[str, ...], everyones: set[str], after: str | None, lost: bool
    ) -> bytes:
        """Return the messages that a reader begins with. Runs in the thread."""
        self._reading().subscribe(sorted(everyones))
        changes = self._begin(store, patterns, after, lost)
        return b"".join(_message(change, topic) for change in changes if (topic := change.topic_for(patterns)))

    def _begin(self, store: Store, patterns: Sequence[str], after: str | None, lost: bool) -> list[Change]:
        """Return a snapshot of the states, then the active jobs, or the moves since `after`."""
        own, hub = Feed(store, patterns, after, MOST_JOBS), self._reading()
        if after is None and not lost:
            return [*hub.snapshot(patterns, hub.cursor), *own.active()]
        missed = _missed(store, own, hub.cursor) if after is not None and not own.is_lost else None
        if missed is None:
            fresh = Feed(store, patterns)
            return [feed.resync(store.now(), hub.cursor), *hub.snapshot(patterns, hub.cursor), *fresh.active()]
        return [*hub.snapshot(patterns, own.begun), *missed]

    async def _publish(self, changes: Sequence[Change]) -> None:
        """Give each reader the changes that it subscribed to, in portions, so that the event loop stays responsive."""
        for start in range(0, len(changes), MOST_PUBLISHED_AT_ONCE):
            await self._publish_some(changes[start : start + MOST_PUBLISHED_AT_ONCE])

    async def _publish_some(self, changes: Sequence[Change]) -> None:
        """Encode each message once, and join the messages once for all readers with equal patterns."""
        encoded: dict[tuple[int, str], bytes] = {}
        matching = await self._matching({topic for change in changes for topic in change.topics})
        async for patterns in in_turns(list(self._readers)):
            keys = [(n, topic) for n, change in enumerate(changes) if (topic := _topic(change, patterns, matching))]
            for n, topic in keys:
                if (n, topic) not in encoded:
                    encoded[n, topic] = _message(changes[n], topic)
            # Readers with equal patterns share one piece of bytes (decision 26).
            messages = b"".join([encoded[key] for key in keys])
            async for reader in in_turns(list(self._readers.get(patterns, ())) if keys else []):
                reader.put(messages, len(keys))

    async def _matching(self, topics: set[str]) -> dict[str, set[str]]:
        """Return the patterns that match each topic. Each pattern is matched once, however many readers use it."""
        patterns = list(self._patterns())
        matching: dict[str, set[str]] = {topic: set() for topic in topics}
        for topic, matches_topic in matching.items():
            for start in range(0, len(patterns), MOST_PUBLISHED_AT_ONCE):
                portion = patterns[start : start + MOST_PUBLISHED_AT_ONCE]
                matches_topic.update(pattern for pattern in portion if matches(pattern, topic))
                await asyncio.sleep(0)
        return matching

    def _all(self) -> list[Reader]:
        return [reader for readers in self._readers.values() for reader in readers]


async def in_turns(items: Sequence[T]) -> AsyncIterator[T]:
    """Yield items, and let the event loop run other tasks after every few of them."""
    for n, item in enumerate(items, 1):
        yield item
        # Waking every reader at once would delay the requests between (decision 26).
        if n % AT_ONCE == 0:
            await asyncio.sleep(0)


def _topic(change: Change, patterns: tuple[str, ...], matching: Mapping[str, set[str]]) -> str | None:
    """Return the topic under which readers with these patterns get a change, as `Change.topic_for` does."""
    if change.topics == EVERYTHING:
        return "*"
    return next((topic for topic in change.topics if not patterns or not matching[topic].isdisjoint(patterns)), None)


def _seeded_throughput(store: Store) -> Throughput:
    """Return the throughput as far as the last events of the log show it."""
    throughput = Throughput()
    for event in store.events.newest(limit=MOST_SEED):
        throughput.note(event)
    return throughput


def _missed(store: Store, own: Feed, published: str) -> list[Change] | None:
    """Return the moves that a reader missed, up to the cursor that the others have reached.

    None if they cannot be read again, or are too many: all readers wait meanwhile, so the search is bounded.
    """
    try:
        return _moves(store, own, published)
    except (LookupError, TypeError, ValueError):
        _log.exception("what a reader of the live feed missed cannot be told: it begins anew")
        return None


def _moves(store: Store, own: Feed, published: str) -> list[Change] | None:
    moves: list[Change] = []
    with store.database.read():  # One snapshot: later events are published to all readers.
        later: set[int] = set()
        while page := store.events.after(published):
            later |= {event.number for event in page}
            published = page[-1].cursor
        for _ in range(MOST_READ_BACK // PAGE):
            moves += own.moves(later) if own.is_behind else []
    return None if own.is_behind or len(moves) > MOST_REPLAYED else moves


def _message(change: Change, topic: str) -> bytes:
    """Encode a change as a server-sent event. JSON escapes line ends, so the data is one line."""
    return b"id: %b\ndata: %b\n\n" % (change.id.encode(), encode_document(change.document(topic)))
