"""The hub of the live feed: one tail of the log, any number of readers, each with a bounded buffer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from rota.api.errors import TooMany
from rota.api.json import dump
from rota.api.stream.notifications import Bell
from rota.core.errors import RotaError
from rota.core.throughput import Pace
from rota.core.times import format_instant
from rota.core.topic import matches
from rota.live import feed
from rota.live.feed import EVERYTHING, PAGE, Feed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from rota.api.metrics import Own
    from rota.api.store_pool import Stores
    from rota.documents import Document
    from rota.live.feed import Change
    from rota.store.events import Event
    from rota.store.store import Store

FLUSH_EVERY, READ_EVERY, READ_FOR_MANY_EVERY, KEEP_ALIVE = 0.1, 0.05, 0.08, 15.0
MANY_READERS, AT_ONCE = 100, 20
MOST_READERS, MOST_OF_TOKEN = 2000, 1000
MOST_PATTERNS = 300  # different ones of one token: each is matched against the topic of every change
MOST_TOLD_AT_ONCE = 500
MOST_WAITING, MOST_BYTES = 256, 256 * 1024
MOST_REPLAYED, MOST_READ_BACK = 2000, 10_000  # moves that are wanted, and events in which they are looked for
MOST_SEED = 2000
MOST_JOBS = 200  # of one event; beyond, readers are told to look for themselves
T = TypeVar("T")
_log = logging.getLogger("rota.http")


class Reader:
    """One subscriber. What waits for it is bounded: too much is thrown away, and it is told to begin anew."""

    def __init__(self, patterns: tuple[str, ...], token_id: str | None) -> None:
        self.patterns = patterns
        self.token_id = token_id
        self.is_lost = False
        self.is_over = False
        self._waiting: list[bytes] = []
        self._messages = self._bytes = 0
        self._awaited: asyncio.Future[None] | None = None

    def put(self, messages: bytes, count: int) -> None:
        if self.is_lost:
            return
        self._waiting.append(messages)
        self._messages += count
        self._bytes += len(messages)
        if self._messages > MOST_WAITING or self._bytes > MOST_BYTES:
            self.lose()
        self.nudge()

    def lose(self) -> None:
        """Throw away what waits; a resync comes in its place."""
        self.take()
        self.is_lost = True
        self.nudge()

    def end(self) -> None:
        self.is_over = True
        self.nudge()

    def nudge(self) -> None:
        """Whoever waits for something goes on, even if there is nothing."""
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    async def wait(self) -> None:
        """Until there is something to take, or a nudge."""
        if not (self._waiting or self.is_lost or self.is_over):
            self._awaited = asyncio.get_running_loop().create_future()
            await self._awaited

    def take(self) -> bytes:
        """All that waits."""
        taken = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        self._waiting.clear()
        self._messages = self._bytes = 0
        return taken


class Share:
    """What the readers of one token have open together."""

    def __init__(self) -> None:
        self.readers = 0
        self.patterns: Counter[str] = Counter()

    def add(self, patterns: tuple[str, ...]) -> None:
        """Count one more reader, or refuse it."""
        if self.readers >= MOST_OF_TOKEN:
            raise TooMany(f"this token has {MOST_OF_TOKEN:,} readers of the feed open: close some of them")
        if len(self.patterns.keys() | set(patterns)) > MOST_PATTERNS:
            raise TooMany(
                f"the readers of this token would follow more than {MOST_PATTERNS} different topics: close some of "
                "them, or use fewer topics, because * spans segments"
            )
        self.readers += 1
        self.patterns.update(patterns or EVERYTHING)

    def remove(self, patterns: tuple[str, ...]) -> None:
        self.readers -= 1
        self.patterns.subtract(patterns or EVERYTHING)
        self.patterns = +self.patterns


class Hub:
    """Reads the log while anybody listens, and hands each change to those who want it."""

    def __init__(self, stores: Stores, poll: float, own: Own) -> None:
        self._stores = stores
        self._poll = poll
        self._own = own
        self._bell = Bell(stores, events=True)
        self._readers: dict[tuple[str, ...], set[Reader]] = {}
        self._shares: dict[str | None, Share] = {}
        self._feed: Feed | None = None
        self._handed_out = ""  # the cursor up to which every change was
        self._tail: asyncio.Task[None] | None = None
        self._reminder: asyncio.Task[None] | None = None
        self._flushed = 0.0
        self._is_stale = False
        self._is_failing = False
        self._revoked: set[str] = set()
        self._pace = Pace()
        self._turn = asyncio.Lock()

    async def join(self, patterns: tuple[str, ...], after: str | None, token_id: str | None) -> tuple[Reader, bytes]:
        """A new reader, and what it gets first: a snapshot, or what it missed since an id."""
        reader = Reader(patterns, token_id)
        self._reserve(reader)  # before the first await: many may come at once
        try:
            await self._bell.open()
            async with self._turn:
                await self._advance()
                first = await self._first(patterns, after)
                self._readers.setdefault(patterns, set()).add(reader)
        except BaseException:
            self._release(reader)
            raise
        if self._tail is None or self._tail.done():
            self._tail = asyncio.create_task(self._follow())
        if self._reminder is None or self._reminder.done():
            self._reminder = asyncio.create_task(self._remind())
        return reader, first

    def leave(self, reader: Reader) -> None:
        group = self._readers.get(reader.patterns, set())
        if reader in group:
            group.remove(reader)
            self._release(reader)
        if not group:
            self._readers.pop(reader.patterns, None)

    def _reserve(self, reader: Reader) -> None:
        """Count a reader, or refuse one too many of its token or of all."""
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
        """What a reader gets that lost something: word of it, and where things stand."""
        async with self._turn:
            await self._advance()
            reader.take()
            reader.is_lost = False
            return await self._first(reader.patterns, None, lost=True)

    async def close(self) -> None:
        for reader in self._all():
            reader.end()
        for task in (self._tail, self._reminder):
            if task is not None:
                task.cancel()
        self._bell.close()

    async def _follow(self) -> None:
        """The tail: until nobody listens any more. A store that is away is looked for again."""
        while True:
            seen, began = self._bell.rings, time.monotonic()
            async with self._turn:
                if not self._readers:
                    self._feed = self._tail = None
                    return
                is_well = await self._advanced()
            if is_well and self._feed is not None and self._feed.is_behind:
                continue
            wait = self._flushed + FLUSH_EVERY - time.monotonic() if self._is_stale else self._poll
            await self._bell.wait(seen, wait)
            every = READ_EVERY if self.readers() < MANY_READERS else READ_FOR_MANY_EVERY
            await asyncio.sleep(began + every - time.monotonic())

    async def _advanced(self) -> bool:
        """Advance, whatever becomes of it: an error is told to the readers, or they begin anew."""
        try:
            await self._advance()
        except RotaError as problem:
            self._is_stale = False
            await self._tell_failing(str(problem))
        except Exception:  # a bug, or a fact of a newer rota: to go on in silence would be worse
            _log.exception("the live feed failed: its readers begin anew")
            self._begin_anew()
        else:
            return True
        return False

    def _begin_anew(self) -> None:
        """Leave out what could not be told: every reader gets a resync, and where things stand."""
        self._feed = None
        for reader in self._all():
            reader.lose()

    async def _remind(self) -> None:
        """A word to everyone now and then, whatever the store does, so that nobody takes silence for an end."""
        while self._readers:
            await asyncio.sleep(KEEP_ALIVE)
            async for reader in in_turns(self._all()):
                reader.nudge()

    async def _tell_failing(self, problem: str) -> None:
        """The store cannot say how things are: that is what its readers hear, once, until it answers again."""
        if self._feed is not None and not self._is_failing:
            self._is_failing = True
            await self._hand_out([self._feed.failing(problem, time.time_ns() // 1000)])

    async def _advance(self) -> None:
        """Hand out what happened since, in one piece: each reader is woken once."""
        if self._feed is not None and self._feed.cursor != self._handed_out:
            self._begin_anew()  # an error came between reading and telling
        wanted = self._patterns()
        found, lag = await self._stores.ask(lambda store: self._read(store, wanted))
        self._is_failing = False
        await self._hand_out(found)
        self._handed_out = self._reading().cursor
        self._own.saw(lag)
        for reader in self._all():
            if reader.token_id in self._revoked:
                reader.end()
        self._revoked.clear()

    def _read(self, store: Store, wanted: set[str]) -> tuple[list[Change], int | None]:
        """In the feed's thread: the moves since, at times the states too, and how long ago the last move was."""
        if self._feed is None:
            with store.database.read():  # one moment: no event is counted twice
                self._feed = Feed(store, most=MOST_JOBS, on_event=self._note)
                self._pace = _so_far(store)
        self._feed.want(sorted(wanted))
        before, found = self._feed.cursor, self._feed.moves()
        moved = self._feed.cursor != before
        lag = store.now() - self._feed.last_at if moved and self._feed.last_at is not None else None
        now = time.monotonic()
        self._is_stale |= moved or now - self._flushed >= self._poll
        if self._is_stale and self._readers and now - self._flushed >= FLUSH_EVERY:
            self._flushed, self._is_stale = now, False
            found = [*found, *self._feed.states()]
        return found, lag

    def _patterns(self) -> set[str]:
        """All that readers want. Called in the loop, where readers come and go."""
        return set().union(*(share.patterns for share in self._shares.values()))

    def _reading(self) -> Feed:
        assert self._feed is not None
        return self._feed

    async def pace(self) -> Document:
        """How work went in the last minutes."""
        return await self._stores.ask(self._told_pace)

    def _told_pace(self, store: Store) -> Document:
        """In the feed's thread: what was counted while it read, or the log's last events when nobody listens."""
        now, pace = store.now(), self._pace if self._feed is not None else _so_far(store)
        return {**pace.told(now), "until": format_instant(now)}

    def _note(self, event: Event) -> None:
        self._pace.note(event.at, event.facts)
        self._revoked |= {fact[2] for fact in event.facts if fact[0] == "token" and fact[1] == "revoke"}

    async def _first(self, patterns: tuple[str, ...], after: str | None, lost: bool = False) -> bytes:
        wanted = self._patterns().union(patterns or EVERYTHING)
        return await self._stores.ask(lambda store: self._start(store, patterns, wanted, after, lost))

    def _start(self, store: Store, patterns: tuple[str, ...], wanted: set[str], after: str | None, lost: bool) -> bytes:
        """In the feed's thread: the messages that a reader begins with."""
        self._reading().want(sorted(wanted))
        found = self._begin(store, patterns, after, lost)
        return b"".join(_message(change, topic) for change in found if (topic := change.topic_for(patterns)))

    def _begin(self, store: Store, patterns: Sequence[str], after: str | None, lost: bool) -> list[Change]:
        """Where the states stand, then the active jobs or the moves since an id."""
        mine, hub = Feed(store, patterns, after, MOST_JOBS), self._reading()
        if after is None and not lost:
            return [*hub.snapshot(patterns, hub.cursor), *mine.active()]
        missed = _missed(store, mine, hub.cursor) if after is not None and not mine.is_lost else None
        if missed is None:
            whole = Feed(store, patterns)
            return [feed.lost(store.now(), hub.cursor), *hub.snapshot(patterns, hub.cursor), *whole.active()]
        return [*hub.snapshot(patterns, mine.begun), *missed]

    async def _hand_out(self, changes: Sequence[Change]) -> None:
        """Give each reader what it wants of the changes, so many at once that the loop does other things in between."""
        for start in range(0, len(changes), MOST_TOLD_AT_ONCE):
            await self._hand_out_some(changes[start : start + MOST_TOLD_AT_ONCE])

    async def _hand_out_some(self, changes: Sequence[Change]) -> None:
        """Each message is made once, and those who want the same get the same piece."""
        made: dict[tuple[int, str], bytes] = {}
        wanting = await self._wanting({topic for change in changes for topic in change.topics})
        async for patterns in in_turns(list(self._readers)):
            wanted = [(n, topic) for n, change in enumerate(changes) if (topic := _topic(change, patterns, wanting))]
            for n, topic in wanted:
                if (n, topic) not in made:
                    made[n, topic] = _message(changes[n], topic)
            piece = b"".join([made[each] for each in wanted])
            async for reader in in_turns(list(self._readers.get(patterns, ())) if wanted else []):
                reader.put(piece, len(wanted))

    async def _wanting(self, topics: set[str]) -> dict[str, set[str]]:
        """For each topic the patterns that match it: looked for once, however many readers have the same."""
        patterns = list(self._patterns())
        wanting: dict[str, set[str]] = {topic: set() for topic in topics}
        for topic, found in wanting.items():
            for start in range(0, len(patterns), MOST_TOLD_AT_ONCE):
                some = patterns[start : start + MOST_TOLD_AT_ONCE]
                found.update(pattern for pattern in some if matches(pattern, topic))
                await asyncio.sleep(0)
        return wanting

    def _all(self) -> list[Reader]:
        return [reader for readers in self._readers.values() for reader in readers]


async def in_turns(things: Sequence[T]) -> AsyncIterator[T]:
    """A few at a time: what else the loop has to do comes in between."""
    for n, thing in enumerate(things, 1):
        yield thing
        if n % AT_ONCE == 0:
            await asyncio.sleep(0)


def _topic(change: Change, patterns: tuple[str, ...], wanting: Mapping[str, set[str]]) -> str | None:
    """The topic under which readers with these patterns get a change, as `Change.topic_for` says it."""
    if change.topics == EVERYTHING:
        return "*"
    return next((topic for topic in change.topics if not patterns or not wanting[topic].isdisjoint(patterns)), None)


def _so_far(store: Store) -> Pace:
    """The pace as far as the log's last events tell it."""
    pace = Pace()
    for event in store.events.newest(limit=MOST_SEED):
        pace.note(event.at, event.facts)
    return pace


def _missed(store: Store, mine: Feed, told: str) -> list[Change] | None:
    """The moves that were told to others before, up to a cursor of theirs; None when they cannot be told again.

    Everyone waits while one reader is told what it missed, so it is looked for in so many events only.
    """
    try:
        return _moves(store, mine, told)
    except (LookupError, TypeError, ValueError):
        _log.exception("what a reader of the live feed missed cannot be told: it begins anew")
        return None


def _moves(store: Store, mine: Feed, told: str) -> list[Change] | None:
    """The same; None when they are too many."""
    found: list[Change] = []
    with store.database.read():  # one moment: what comes after it, everyone is told
        later: set[int] = set()
        while page := store.events.after(told):
            later |= {event.number for event in page}
            told = page[-1].cursor
        for _ in range(MOST_READ_BACK // PAGE):
            found += mine.moves(later) if mine.is_behind else []
    return None if mine.is_behind or len(found) > MOST_REPLAYED else found


def _message(change: Change, topic: str) -> bytes:
    """A change as server-sent event; its text holds no line end, because JSON writes those as letters."""
    return b"id: %b\ndata: %b\n\n" % (change.id.encode(), dump(change.document(topic)))
