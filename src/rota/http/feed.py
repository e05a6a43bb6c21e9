"""The hub of the live feed: one tail of the log, any number of readers, each with a bounded buffer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rota import feed
from rota.core.errors import Refused, RotaError
from rota.core.pace import Pace
from rota.core.times import format_instant
from rota.feed import Feed
from rota.http.bells import Bell
from rota.http.dump import dump

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from rota.feed import Change
    from rota.http.metrics import Own
    from rota.http.stores import Stores
    from rota.store.events import Event
    from rota.store.store import Store
    from rota.wire import Document

FLUSH_EVERY, READ_EVERY, READ_FOR_MANY_EVERY, KEEP_ALIVE = 0.1, 0.05, 0.08, 15.0
MANY_READERS, AT_ONCE = 100, 20
MOST_READERS = 2000
MOST_WAITING, MOST_BYTES = 256, 256 * 1024
MOST_REPLAYED = 2000
MOST_SEED = 2000
MOST_JOBS = 200  # of one event; beyond, readers are told to look for themselves


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


class Hub:
    """Reads the log while anybody listens, and hands each change to those who want it."""

    def __init__(self, stores: Stores, poll: float, own: Own) -> None:
        self._stores = stores
        self._poll = poll
        self._own = own
        self._bell = Bell(stores, events=True)
        self._readers: dict[tuple[str, ...], set[Reader]] = {}
        self._feed: Feed | None = None
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
        if self.readers() >= MOST_READERS:
            raise Refused(f"there are {MOST_READERS} readers of the feed already")
        await self._bell.open()
        reader = Reader(patterns, token_id)
        async with self._turn:
            await self._advance()
            first = await self._first(patterns, after)
            self._readers.setdefault(patterns, set()).add(reader)
        if self._tail is None or self._tail.done():
            self._tail = asyncio.create_task(self._follow())
        if self._reminder is None or self._reminder.done():
            self._reminder = asyncio.create_task(self._remind())
        return reader, first

    def leave(self, reader: Reader) -> None:
        group = self._readers.get(reader.patterns, set())
        group.discard(reader)
        if not group:
            self._readers.pop(reader.patterns, None)

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
                try:
                    await self._advance()
                except RotaError as problem:
                    self._is_stale = False
                    await self._tell_failing(str(problem))
            if self._feed is not None and self._feed.is_behind:
                continue
            wait = self._flushed + FLUSH_EVERY - time.monotonic() if self._is_stale else self._poll
            await self._bell.wait(seen, wait)
            every = READ_EVERY if self.readers() < MANY_READERS else READ_FOR_MANY_EVERY
            await asyncio.sleep(began + every - time.monotonic())

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
        found, lag = await self._stores.ask(self._read)
        self._is_failing = False
        await self._hand_out(found)
        self._own.saw(lag)
        for reader in self._all():
            if reader.token_id in self._revoked:
                reader.end()
        self._revoked.clear()

    def _read(self, store: Store) -> tuple[list[Change], int | None]:
        """In the feed's thread: the moves since, at times the states too, and how long ago the last move was."""
        if self._feed is None:
            with store.database.read():  # one moment: no event is counted twice
                self._feed = Feed(store, most=MOST_JOBS, on_event=self._note)
                self._pace = _so_far(store)
        self._want(())
        before, found = self._feed.cursor, self._feed.moves()
        moved = self._feed.cursor != before
        lag = store.now() - self._feed.last_at if moved and self._feed.last_at is not None else None
        now = time.monotonic()
        self._is_stale |= moved or now - self._flushed >= self._poll
        if self._is_stale and self._readers and now - self._flushed >= FLUSH_EVERY:
            self._flushed, self._is_stale = now, False
            found = [*found, *self._feed.states()]
        return found, lag

    def _want(self, more: Sequence[str]) -> None:
        """Look at what the readers want, and at these topics too."""
        wanted = {pattern for patterns in self._readers for pattern in patterns or ("*",)}
        self._reading().want(sorted({*wanted, *more}))

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
        found = await self._stores.ask(lambda store: self._start(store, patterns, after, lost))
        return b"".join(_message(change, topic) for change in found if (topic := change.topic_for(patterns)))

    def _start(self, store: Store, patterns: Sequence[str], after: str | None, lost: bool) -> list[Change]:
        """In the feed's thread: where the states stand, then the active jobs or the moves since an id."""
        mine, hub = Feed(store, patterns, after, MOST_JOBS), self._reading()
        self._want(patterns or ("*",))
        if after is None and not lost:
            return [*hub.snapshot(patterns, hub.cursor), *mine.active()]
        missed = _missed(store, mine, hub.cursor) if after is not None and not mine.is_lost else None
        if missed is None:
            whole = Feed(store, patterns)
            return [feed.lost(store.now(), hub.cursor), *hub.snapshot(patterns, hub.cursor), *whole.active()]
        return [*hub.snapshot(patterns, mine.begun), *missed]

    async def _hand_out(self, changes: Sequence[Change]) -> None:
        """Each message is made once, and those who want the same get the same piece."""
        made: dict[tuple[int, str], bytes] = {}
        for patterns, readers in list(self._readers.items()):
            wanted = [(n, topic) for n, change in enumerate(changes) if (topic := change.topic_for(patterns))]
            for n, topic in wanted:
                if (n, topic) not in made:
                    made[n, topic] = _message(changes[n], topic)
            piece = b"".join([made[each] for each in wanted])
            async for reader in in_turns(list(readers) if wanted else []):
                reader.put(piece, len(wanted))

    def _all(self) -> list[Reader]:
        return [reader for readers in self._readers.values() for reader in readers]


async def in_turns(readers: Sequence[Reader]) -> AsyncIterator[Reader]:
    """A few at a time: what else the loop has to do comes in between."""
    for n, reader in enumerate(readers, 1):
        yield reader
        if n % AT_ONCE == 0:
            await asyncio.sleep(0)


def _so_far(store: Store) -> Pace:
    """The pace as far as the log's last events tell it."""
    pace = Pace()
    for event in store.events.newest(limit=MOST_SEED):
        pace.note(event.at, event.facts)
    return pace


def _missed(store: Store, mine: Feed, told: str) -> list[Change] | None:
    """The moves that were told to others before, up to a cursor of theirs; None when they are too many."""
    found: list[Change] = []
    with store.database.read():  # one moment: what comes after it, everyone is told
        later: set[int] = set()
        while page := store.events.after(told):
            later |= {event.number for event in page}
            told = page[-1].cursor
        while mine.is_behind:
            found += mine.moves(later)
            if len(found) > MOST_REPLAYED:
                return None
    return found


def _message(change: Change, topic: str) -> bytes:
    """A change as server-sent event; its text holds no line end, because JSON writes those as letters."""
    return b"id: %b\ndata: %b\n\n" % (change.id.encode(), dump(change.document(topic)))
