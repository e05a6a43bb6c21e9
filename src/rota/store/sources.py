"""The port for sources: declared by workers, filled by one of them at a time, listed with their progress."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core import source as core
from rota.core.errors import NotFound, Stale
from rota.core.record import Record
from rota.store.engine import locks
from rota.store.engine.rows import scalar, to_job, to_source
from rota.store.engine.transaction import retry_conflicts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.job import Job, NewJob
    from rota.core.source import Declared, Source
    from rota.core.times import Instant
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

    Many = Callable[[str, Iterable[Row]], list[Row]]

ENDLESS = 1 << 30
LONGEST_TITLE = 120
FORGOTTEN_AT_ONCE = 1000


class SourceStatus(Record):
    """A source with its jobs by state, and the state of its filler."""

    source: Source
    counts: dict[str, int]
    filler_status: str | None
    next_fill_at: Instant | None


class Found(Record):
    """A key that a source yielded, with the payload of its job."""

    key: str
    payload_json: str | None


class Sifted(Record):
    """The keys that would become jobs now, and repeated ones that are held back and not reported yet."""

    fresh: list[Found]
    repeated: list[Found]


class Filled(Record):
    """The result of a pass: how many jobs it added, and the keys that it was the first to hold back."""

    added: int
    repeated: list[str]


class Sources:
    """The port for sources."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retry_conflicts
    def declare(self, declared: Sequence[Declared]) -> None:
        """Write declared sources, each with the internal job that fills its queue, if anything changed."""
        known = {source.name: source for source in self.all()}
        if all(self._is_known(known.get(each.name), each) for each in declared):
            return
        with self._store.begin() as tx:
            for each in sorted(declared, key=lambda each: each.name):
                self._declare(tx, core.checked(each))

    def declare_missing(self, declared: Sequence[Declared]) -> None:
        """Declare those of these sources that somebody has forgotten meanwhile; the others stay as they are."""
        known = {source.name for source in self.all()}
        missing = [each for each in declared if each.name not in known]
        if missing:
            self.declare(missing)

    def get(self, name: str) -> Source:
        rows = self._store.database.execute("source.get", {"name": name})
        if not rows:
            raise NotFound(f"there is no source {name}: a worker whose app declares it makes it known when it starts")
        return to_source(rows[0])

    def forget(self, name: str) -> int:
        """Remove a source with its counters, its filler and its waiting jobs; return how many jobs that were."""
        self.get(name)
        self._forget(name)
        count = 0
        while rows := self._forget_waiting(name):
            count += rows
        return count

    def held(self, name: str) -> set[str]:
        """Return the keys whose jobs are running. A pass asks before it reads, and leaves them out.

        A handler may settle in a transaction of its own: its mark and its success are seen when that commits, but the
        success bears the time at which it was said. If a pass is claimed in between, only this shows that its data is
        older than the success.
        """
        return {key for (key,) in self._store.database.execute("source.held", {"source": name})}

    def has_enough(self, name: str) -> bool:
        """Return whether `low` or more of its jobs are ready, so that a pass would add nothing."""
        low = self.get(name).low
        return bool(scalar(self._store.database.execute("source.count_ready", {"source": name, "most": low})) >= low)

    def sift(self, name: str, found: Sequence[Found], began: Instant) -> Sifted:
        """Return which keys would become jobs if a pass that began then added them now; writes nothing."""
        return _sift(self._store.database.many, self.get(name), found, began, self._store.now())

    @retry_conflicts
    def fill(self, name: str, filler: tuple[int, int], found: Sequence[Found], like: NewJob, exhausted: bool) -> Filled:
        """Add what is new of a pass, in one transaction that the filler's job and token fence.

        `like` says what jobs of the source's task have; `exhausted`, that it came to its end. While `low` of its
        jobs are ready, nothing is added: a claim that leaves fewer lets the filler come again.
        """
        queue = self.get(name).queue
        with self._store.begin() as tx:
            # Queue, source, filler: every transaction locks them in this order (decision 14).
            room = self._room(tx, queue)
            row = tx.one("source.lock", name=name)
            pass_job = _in_hand(tx, filler)
            if row is None or pass_job.claimed_at is None:
                raise Stale(f"source {name} was forgotten meanwhile")
            source = to_source(row)
            sifted = _sift(tx.many, source, found, pass_job.claimed_at, tx.now)
            has_enough = scalar(tx.execute("source.count_ready", source=name, most=source.low)) >= source.low
            fresh = [] if has_enough else sifted.fresh[: min(source.batch, room)]
            if fresh:
                self._add(tx, source, fresh, like)
            more = has_enough or (bool(fresh) and (not exhausted or len(fresh) < len(sifted.fresh)))
            tx.execute("source.refresh_filler", id=pass_job.id)
            repeated = _report_repeated(tx, name, sifted.repeated)
            tx.execute(
                "source.filled",
                name=name,
                more=int(more),
                added=len(fresh),
                now=tx.now,
                repeated=len(repeated),
                repeated_key=repeated[-1] if repeated else None,
            )
            if fresh or repeated:
                tx.changed("source", "fill", name, added=len(fresh), repeated=repeated[:20])
            _forget_keys(tx, name, pass_job.claimed_at)
        return Filled(len(fresh), repeated)

    def _add(self, tx: Transaction, source: Source, fresh: Sequence[Found], like: NewJob) -> None:
        ids = tx.draw_many("job", len(fresh))
        attempts = like.max_attempts or self._store.settings.max_attempts
        rows: list[Row] = []
        for id, each in zip(ids, fresh, strict=True):
            title = f"{source.task} {each.key}"[:LONGEST_TITLE].replace("\0", "")
            work = (id, source.queue, source.task, title, each.payload_json, like.priority)
            rows.append((*work, each.key, source.name, attempts, like.timeout, tx.now))
        tx.many("source.add", rows)
        tx.moved(jobs.ADD, source.queue, None, jobs.READY, ids, source=source.name)

    def _room(self, tx: Transaction, queue: str) -> int:
        """Return how many more jobs the queue's depth lets wait."""
        known = locks.queue(tx, queue)
        if known is None:
            _make_queue(tx, queue)
            return core.LARGEST_NUMBER
        depth = known.max_depth
        return core.LARGEST_NUMBER if depth is None else max(0, depth - tx.count(queue, *jobs.WAITING))

    def all(self) -> list[Source]:
        return [to_source(row) for row in self._store.database.execute("source.all", {})]

    def _is_known(self, source: Source | None, declared: Declared) -> bool:
        if source is None or source.declared != declared:
            return False
        return bool(self._store.database.execute("job.get", {"id": source.filler}))

    def _declare(self, tx: Transaction, declared: Declared) -> None:
        row = tx.one("source.lock", name=declared.name)
        source = to_source(row) if row is not None else None
        values = {name: getattr(declared, name) for name in declared._fields}
        if source is None:
            filler = _make_filler(tx, declared)
            tx.execute("source.make", filler=filler, now=tx.now, **values)
            tx.changed("source", "make", declared.name, queue=declared.queue)
            return
        known = tx.one("job.lock", id=source.filler)
        filler = source.filler
        if known is None or source.queue != declared.queue:
            if known is not None:
                _end_filler(tx, to_job(known))
            filler = _make_filler(tx, declared)
        if source.declared != declared or filler != source.filler:
            tx.execute("source.set", filler=filler, **values)
            tx.changed("source", "set", declared.name, queue=declared.queue)

    def _status(self, source: Source, counts: dict[str, int]) -> SourceStatus:
        rows = self._store.database.execute("job.get", {"id": source.filler})
        filler = to_job(rows[0]) if rows else None
        of_source = {state: counts.get(state, 0) for state in jobs.STATES if state != jobs.DONE}
        due = filler.due_at if filler is not None and filler.status == jobs.SCHEDULED else None
        return SourceStatus(source, of_source, filler.status if filler else None, due)

    @retry_conflicts
    def _forget(self, name: str) -> None:
        with self._store.write() as tx:
            row = tx.one("source.lock", name=name)
            filler = tx.one("job.lock", id=to_source(row).filler) if row is not None else None
            if filler is not None:
                _end_filler(tx, to_job(filler))
            for statement in ("source.forget", "source.forget_memory"):
                tx.execute(statement, name=name)
            if row is not None:
                tx.changed("source", "forget", name)

    @retry_conflicts
    def _forget_waiting(self, name: str) -> int:
        with self._store.write() as tx:
            rows = tx.execute("source.waiting_of", source=name, most=FORGOTTEN_AT_ONCE)
            ids: list[Row] = [(id,) for id, _, _ in rows]
            for statement in ("job.forget_runs", "job.forget_dependencies", "job.forget"):
                tx.many(statement, ids)
            for id, queue, status in rows:
                tx.pruned(queue, status, [id])
        return len(rows)

    def list(self) -> list[SourceStatus]:
        counts: dict[str, dict[str, int]] = {}
        for name, status, n in self._store.database.execute("source.counts", {}):
            counts.setdefault(name, {})[status] = n
        return [self._status(source, counts.get(source.name, {})) for source in self.all()]


def _make_filler(tx: Transaction, declared: Declared) -> int:
    """Insert the job that fills the queue. It is ready at once, and again whenever its time has come."""
    (id,), queue = tx.draw_many("job", 1), core.internal_queue(declared.queue)
    if tx.one("queue.get", queue=declared.queue) is None:
        _make_queue(tx, declared.queue)
    tx.execute(
        "source.make_filler",
        id=id,
        queue=queue,
        kind=core.filler_kind(declared.name),
        title=f"fill {declared.queue} from {declared.name}",
        source=declared.name,
        max_attempts=ENDLESS,
        now=tx.now,
    )
    tx.moved(jobs.ADD, queue, None, jobs.READY, [id])
    return id


def _make_queue(tx: Transaction, name: str) -> None:
    if tx.execute("queue.make", queue=name, now=tx.now):
        tx.changed("queue", "make", name)


def _end_filler(tx: Transaction, filler: Job) -> None:
    """Delete a filler; one that is running is fenced off."""
    tx.many("job.forget_runs", [(filler.id,)])
    tx.many("job.forget", [(filler.id,)])
    tx.pruned(filler.queue, filler.status, [filler.id])


def _in_hand(tx: Transaction, filler: tuple[int, int]) -> Job:
    """Return the filler's job if its claim is still current."""
    id, token = filler
    row = tx.one("job.lock", id=id)
    job = to_job(row) if row is not None else None
    if job is None or job.status != jobs.ACTIVE or job.token != token:
        raise Stale(f"job {id} is not held with token {token} any more: someone else fills this source")
    return job


def _sift(many: Many, source: Source, found: Sequence[Found], began: Instant, now: Instant) -> Sifted:
    """Leave out keys that have a job, that succeeded since the pass began (what it read may be older than that), and
    those that come again too often."""
    wanted = {each.key: each for each in found}
    known = {key for (key,) in many("source.known", [(source.name, key) for key in wanted])}
    hashes = {core.key_hash(key): key for key in wanted if key not in known}
    rows = many("source.recall", [(source.name, number) for number in hashes])
    remembered = {number: (successes, at, was_reported) for number, successes, at, was_reported in rows}
    fresh, repeated = [], []
    for number, key in hashes.items():
        successes, at, was_reported = remembered.get(number, (0, began - 1, 1))
        until = core.held_until(successes, at, source.repeats)
        if at >= began:
            continue
        if until is None or until <= now:
            fresh.append(wanted[key])
        elif not was_reported:
            repeated.append(wanted[key])
    return Sifted(fresh, repeated)


def _report_repeated(tx: Transaction, name: str, repeated: Sequence[Found]) -> list[str]:
    """Mark repeated keys as reported, so that each is reported once."""
    tx.many("source.mark_reported", [(name, core.key_hash(each.key)) for each in repeated])
    return [each.key for each in repeated]


def _forget_keys(tx: Transaction, name: str, began: Instant) -> None:
    """Bound the memory of keys, without deleting those that this pass was compared with."""
    tx.execute("source.forget_keys", source=name, before=min(began, tx.now - core.MEMORY_TIME), most=core.MEMORY)
    surplus = scalar(tx.execute("source.count_memory", source=name)) - core.MEMORY
    if surplus > 0:
        tx.execute("source.forget_keys", source=name, before=began, most=surplus)
