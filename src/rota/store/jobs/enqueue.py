"""Add jobs: check what a caller asks for, and write each job in the state in which it rests."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core.errors import BadInput, NotFound, QueueFull
from rota.core.event import JobMoved, decode
from rota.core.ids import MOST, MOST_ID, queue_name, whole
from rota.core.job import NewJob as NewJob
from rota.core.job import is_open, put_off, rest
from rota.core.source import KIND
from rota.core.times import FIRST, LAST, LONGEST, parse_duration
from rota.store.engine import locks
from rota.store.engine.rows import scalar, to_job, to_queue
from rota.store.jobs import dependencies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.job import Job
    from rota.core.queue import Queue
    from rota.core.times import Instant
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction

LONGEST_TITLE = 1000
LONGEST_NAME = 200
_LARGEST_PRIORITY = 1 << 31
_HEX = frozenset("0123456789abcdef")


def checked(new: NewJob) -> NewJob:
    """Return a job as it will be added.

    Raises:
        BadInput: Something about it is wrong; the message says what would be right.
    """
    queue_name(new.queue)
    if not new.title.strip():
        raise BadInput("a job needs a title")
    if len(new.title) > LONGEST_TITLE or "\0" in new.title:
        raise BadInput(f"the title may have at most {LONGEST_TITLE} characters, none of them NUL")
    _check_name("kind", new.kind)
    _check_name("key", new.key)
    _check_name("limit_key", new.limit_key)
    if new.kind.startswith(KIND):
        raise BadInput(f"{new.kind!r} is no kind for a job: those that begin with {KIND} are rota's own")
    if new.key == "" or new.limit_key == "":
        raise BadInput("a key may not be empty: leave it out instead")
    whole("priority", new.priority, -_LARGEST_PRIORITY, _LARGEST_PRIORITY - 1)
    if new.max_attempts is not None:
        whole("max_attempts", new.max_attempts, 1, MOST)
    if new.timeout is not None:
        whole("a time-out in microseconds", new.timeout, 1, LONGEST)
    if new.at is not None:
        whole("at, in microseconds since 1970,", new.at, FIRST, LAST)
    if new.after or new.follows or new.parent is not None:
        for id in (*new.after, *new.follows, *(() if new.parent is None else (new.parent,))):
            whole("a job's id or place", id, 0, MOST_ID)
    if new.until not in jobs.UNTIL:
        raise BadInput(f"until is one of {', '.join(jobs.UNTIL)}, not {new.until!r}")
    if new.debounce is not None or new.at_most is not None:
        new = _debounced(new)
    if new.unique is not None:
        _check_unique(new)
    if new.trace is not None and not is_trace(new.trace):
        raise BadInput(f"{new.trace[:60]!r} is no traceparent: write it as W3C does, 00-32 digits-16 digits-01")
    return new


def _check_unique(new: NewJob) -> None:
    if new.unique not in jobs.UNIQUE:
        raise BadInput(f"unique must be one of {', '.join(jobs.UNIQUE)}, not {new.unique!r}")
    if new.key is None:
        raise BadInput("unique needs a key: it says which earlier job of that key stands for a new one")
    if new.debounce is not None:
        raise BadInput("leave out unique: with debounce the key goes to a new job once the last one no longer waits")


def _check_name(what: str, text: str | None) -> None:
    if text and (len(text) > LONGEST_NAME or "\0" in text):
        raise BadInput(f"{what} may have at most {LONGEST_NAME} characters, none of them NUL")


def _debounced(new: NewJob) -> NewJob:
    """Read and check the durations of a debounced job."""
    if new.debounce is None:
        raise BadInput("at_most goes with debounce: it bounds how long that puts a job off")
    if new.key is None:
        raise BadInput("debounce needs a key: what is added again with the same key is one job")
    if new.at is not None or new.after or new.follows:
        raise BadInput("debounce sets when the job is due: leave out at, after and follows")
    told = {name: getattr(new, name) for name in ("debounce", "at_most")}
    read = {name: parse_duration(each) if isinstance(each, str) else each for name, each in told.items()}
    for name, each in read.items():
        if each is not None:
            whole(f"{name} in microseconds", each, 1, LONGEST)
    return new.replace(**read)


def is_trace(text: str) -> bool:
    """Return whether a text is a `traceparent`: version, trace, span and flags, in hexadecimal digits."""
    parts = text.split("-")
    return [len(part) for part in parts] == [2, 32, 16, 2] and all(set(part) <= _HEX for part in parts)


class Addition:
    """Jobs that one transaction adds: written together at the end, and before any key is looked up."""

    def __init__(self, tx: Transaction, max_attempts: int) -> None:
        self._tx = tx
        self._max_attempts = max_attempts
        self._rows: list[Row] = []
        self._states: dict[tuple[str, str], list[int]] = {}
        self._waits: list[tuple[int, NewJob]] = []
        self._admitted: dict[tuple[str, str], int] = {}
        self._statuses: dict[int, str] = {}
        self._met: set[int] = set()

    def add(self, wanted: Sequence[NewJob], payloads: Sequence[str | None]) -> list[int]:
        """Add jobs and return their ids in order; where a key is taken, the id of the job that has it."""
        for name in sorted({new.queue for new in wanted}):
            self._tx.prefetch("queue.get", queue=name)
        if wanted:
            self._tx.prefetch("number.draw_many", name="job", count=len(wanted))
        self._prepare_queues(wanted)
        locks.all_jobs(self._tx, (needed for new in wanted for needed in new.after))
        if self._tx.borrowed:
            _refuse_in_a_callers_transaction(wanted)
            self._refuse_to_wait_for_others({id for new in wanted for id in new.after})
        ids = self._tx.draw_many("job", len(wanted)) if wanted else []
        if all(new.is_plain for new in wanted):
            self._place_plain(ids, wanted, payloads)
        else:
            for place, (new, payload) in enumerate(zip(wanted, payloads, strict=True)):
                ids[place] = self._add_one(ids[place], self._behind(new, place, ids), payload)
        self._write()
        self._depend()
        for (queue, status), added in self._states.items():
            self._tx.moved(jobs.ADD, queue, None, status, added)
        return ids

    def _add_one(self, id: int, new: NewJob, payload: str | None) -> int:
        """Add one job, and return the id drawn for it, or that of the job that has its key."""
        known = self._known(new)
        if known is None or not self._stands_for(known, new, payload):
            self._place(id, new, payload)
            return id
        self._met.add(known.id)
        return known.id

    def _behind(self, new: NewJob, place: int, ids: Sequence[int]) -> NewJob:
        """Add the jobs of this call that a job follows to its dependencies; lock those that existed before."""
        if not new.follows:
            return new
        if not all(0 <= each < place for each in new.follows):
            raise BadInput(
                f"follows names jobs of the same call by their places from 0, and this one has place {place}: only"
                " those before it can be meant, and after names jobs that are there already"
            )
        found = [ids[each] for each in new.follows]
        if met := self._met.intersection(found):
            if self._tx.borrowed:
                self._refuse_to_wait_for_others(met)
            locks.all_jobs(self._tx, met)
        return new.replace(after=(*new.after, *found))

    def _stands_for(self, known: Job, new: NewJob, payload: str | None) -> bool:
        """Return whether the job that has a key stands for a new one; otherwise take the key from it."""
        if new.debounce is None and new.meets(known.status):
            # The usual case needs no lock.
            return True
        row = self._tx.one("job.lock", id=known.id)
        job = to_job(row) if row is not None else None
        if job is None or not new.meets(job.status):
            self._tx.execute("job.drop_key", id=known.id)
            return False
        if new.debounce is not None:
            self._put_off(job, new, payload)
        return True

    def _put_off(self, job: Job, new: NewJob, payload: str | None) -> None:
        """Let the job that has this key wait longer, with the new payload."""
        due_at = _due_at(new, job.created_at, self._tx.now)
        status, blocked_on = dependencies.resting(self._tx, job, due_at)
        told = {"title": new.title, "payload": payload, "due_at": due_at, "status": status, "blocked_on": blocked_on}
        self._tx.execute("job.put_off", id=job.id, **told)
        self._tx.moved(jobs.DEBOUNCE, job.queue, job.status, status, [job.id])
        self._tx.something_to_claim = True
        dependencies.left(self._tx, job.queue, job.limit_key, job.status, status)

    def _place_plain(self, ids: Sequence[int], wanted: Sequence[NewJob], payloads: Sequence[str | None]) -> None:
        """Write jobs that are simply ready, as most are. In bulk, this loop takes most of the time."""
        now, most = self._tx.now, self._max_attempts
        for id, new in zip(ids, wanted, strict=True):
            self._states.setdefault((new.queue, jobs.READY), []).append(id)
        rest = (jobs.READY, None, None, 0, None, None, None)
        self._rows = [
            (
                id,
                new.queue,
                new.kind,
                new.title,
                payload,
                new.priority,
                *rest,
                new.max_attempts or most,
                new.timeout,
                now,
                new.trace,
            )
            for id, new, payload in zip(ids, wanted, payloads, strict=True)
        ]

    def _place(self, id: int, new: NewJob, payload: str | None) -> None:
        """Write one job in the state in which it rests."""
        status, blocked_on, due_wall = jobs.READY, None, 0
        if new.after or new.at is not None or new.limit_key is not None or new.parent is not None:
            status, blocked_on = self._rest(new)
            due_wall = int(new.at is not None)
        due_at = self._tx.now if status == jobs.SCHEDULED and new.at is None else new.at
        if new.debounce is not None:
            status, blocked_on, due_at = jobs.SCHEDULED, None, _due_at(new, self._tx.now, self._tx.now)
        work = (new.queue, new.kind, new.title, payload, new.priority, status, blocked_on, due_at, due_wall)
        attempts = new.max_attempts or self._max_attempts
        self._rows.append(
            (id, *work, new.key, new.limit_key, new.parent, attempts, new.timeout, self._tx.now, new.trace)
        )
        self._states.setdefault((new.queue, status), []).append(id)
        self._statuses[id] = status
        if new.after:
            self._waits.append((id, new))

    def _rest(self, new: NewJob) -> tuple[str, str | None]:
        states = [self._status_of(id, "to wait for") for id in new.after]
        if new.parent is not None:
            self._status_of(new.parent, "to be the parent")
        due = new.at is None or new.at <= self._tx.wall
        waits = any(is_open(status, new.until) for status in states)
        if (
            self._tx.borrowed and new.limit_key is not None
        ):  # who finds it due counts it, and holds its queue for a moment
            return rest(waits, False, False)
        return rest(waits, due, due and not waits and not self._has_room(new))

    def _refuse_to_wait_for_others(self, needed: set[int]) -> None:
        """Refuse dependencies on other transactions' jobs, which would stay locked until the commit (decision 18)."""
        facts = [fact for (text,) in self._tx.execute("log.mine") for fact in decode(text)] if needed else []
        mine = {id for fact in facts if isinstance(fact, JobMoved) and fact.verb == jobs.ADD for id in fact.ids}
        if needed - mine:
            raise BadInput(
                f"job {min(needed - mine)} is not of this transaction: a job that is added in a transaction of yours"
                " can wait only for jobs that the same transaction added"
            )

    def _status_of(self, id: int, what_for: str) -> str:
        if id not in self._statuses:
            row = self._tx.one("job.get", id=id)
            if row is None:
                raise NotFound(f"there is no job {id} {what_for}")
            self._statuses[id] = to_job(row).status
        return self._statuses[id]

    def _has_room(self, new: NewJob) -> bool:
        """Return whether the key's limit has room for one more, counting those that this transaction added before."""
        if new.limit_key is None:
            return True
        per_key = dependencies.queue_of(self._tx, new.queue).per_key
        if per_key is None:
            return True
        place = (new.queue, new.limit_key)
        if place not in self._admitted:
            counted = self._tx.execute(
                "job.count_admitted", queue=new.queue, limit_key=new.limit_key, id=0, most=per_key
            )
            self._admitted[place] = scalar(counted)
        self._admitted[place] += 1
        return self._admitted[place] <= per_key

    def _known(self, new: NewJob) -> Job | None:
        if new.key is None:
            return None
        self._write()
        row = self._tx.one("job.by_key", queue=new.queue, key=new.key)
        return None if row is None else to_job(row)

    def _adds(self, new: NewJob) -> bool:
        """Return whether adding this one adds a job."""
        known = self._known(new)
        return known is None or not new.meets(known.status)

    def _write(self) -> None:
        if self._rows:
            self._tx.many("job.insert", self._rows)
            self._rows = []

    def _depend(self) -> None:
        """Write what the new jobs depend on, and count them with the jobs that they depend on."""
        pairs = {
            (id, needed, int(new.until == jobs.UNTIL_FINAL)): None for id, new in self._waits for needed in new.after
        }
        dependents: dict[int, int] = {}
        for _, needed, _ in pairs:
            dependents[needed] = dependents.get(needed, 0) + 1
        self._tx.many("dependency.add", pairs)
        self._tx.many("dependency.count_dependents", [(count, needed) for needed, count in sorted(dependents.items())])

    def _prepare_queues(self, wanted: Sequence[NewJob]) -> None:
        """Make queues that do not exist, and refuse to fill one beyond its depth."""
        for name in sorted({new.queue for new in wanted}):
            queue = self._queue(name)
            if queue is None:
                if self._tx.execute("queue.make", queue=name, now=self._tx.now):
                    self._tx.changed("queue", "make", name)
            elif (depth := queue.max_depth) is not None:
                waiting = self._tx.count(name, *jobs.WAITING)
                if waiting + sum(new.queue == name and self._adds(new) for new in wanted) > depth:
                    raise QueueFull(f"queue {name} is full: {waiting} jobs wait, at most {depth} may")

    def _queue(self, name: str) -> Queue | None:
        if not self._tx.borrowed:
            return locks.queue(self._tx, name)
        row = self._tx.one("queue.get", queue=name)
        return to_queue(row) if row else None


def _refuse_in_a_callers_transaction(wanted: Sequence[NewJob]) -> None:
    """Refuse options that take a key from a running job: settling it would wait for the commit (decision 18)."""
    for new in wanted:
        if new.key is not None and (new.debounce is not None or new.unique == jobs.UNIQUE_WAITING):
            what = "debounce" if new.debounce is not None else "unique='waiting'"
            raise BadInput(f"{what} and a connection of yours do not go together: others would wait for your commit")


def _due_at(new: NewJob, created_at: Instant, now: Instant) -> Instant:
    assert isinstance(new.debounce, int) and not isinstance(new.at_most, str)
    return put_off(new.debounce, new.at_most, created_at, now)


def depend(tx: Transaction, id: int, on: Iterable[int]) -> None:
    """Let a job wait for others, and count it with each of them."""
    for needed in on:
        if tx.execute("dependency.add", job=id, needs=needed, until_over=0):
            tx.many("dependency.count_dependents", [(1, needed)])
