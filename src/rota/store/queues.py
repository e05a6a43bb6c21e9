"""The port for queues: their limits, their counts, and whether they are open."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core import queue as queues
from rota.core.errors import BadInput, NotFound
from rota.core.ids import MOST, queue_name, whole
from rota.core.queue import parse_rate
from rota.core.record import Record
from rota.store.engine.rows import queues_by_name, scalar, to_queue
from rota.store.engine.transaction import retry_conflicts
from rota.store.jobs import dependencies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.queue import Queue
    from rota.core.times import Instant
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

LIMITS = ("max_depth", "rate", "concurrency", "per_key", "breaker", "fence")
_BATCH = 500


class QueueStatus(Record):
    """A queue with its counts by state, since when its best job waits, and how long its runs take."""

    queue: Queue
    counts: dict[str, int]
    paused_by: str | None
    oldest_ready_at: Instant | None


class Queues:
    """The port for queues."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def open_ones(self, name: str | None = None, rows: list[Row] | None = None) -> list[Queue]:
        """Return the queues that jobs may be claimed from: all that are not paused, or this one if it is not.

        `rows` are all queues, where the caller has just read them.
        """
        by_name = queues_by_name(self._store.database.execute("queue.all", {}) if rows is None else rows)
        everything = by_name.pop(queues.ALL)
        if everything.paused_at is not None:
            return []
        if name is not None:
            by_name = {name: by_name.get(name, queues.Queue(name))}
        return [queue for queue in by_name.values() if queue.paused_at is None]

    def is_open(self, name: str | None = None) -> bool:
        """Return whether a worker of this queue, or of any, may claim. A store without queues counts as open."""
        all_queues = [to_queue(row) for row in self._store.database.execute("queue.all", {})]
        return bool(self.open_ones(name)) or [queue.paused_at for queue in all_queues] == [None]

    def get(self, name: str) -> Queue:
        rows = self._store.database.execute("queue.get", {"queue": name})
        if not rows:
            raise NotFound(f"there is no queue {name}: a queue comes to be with its first job or with `rota queue set`")
        return to_queue(rows[0])

    @retry_conflicts
    def set(self, name: str, **limits: object) -> Queue:
        """Set limits of a queue; None removes one. A changed `per_key` holds jobs back or lets them in.

        Raises:
            BadInput: There is no such limit, or its value is wrong.
        """
        for limit, value in limits.items():
            _check(limit, value)
        with self._store.write(exclusive=True) as tx:
            tx.execute("queue.make", queue=queue_name(name), now=tx.now)
            before = dependencies.queue_of(tx, name)
            wanted = {limit: limits.get(limit, getattr(before, limit)) for limit in LIMITS}
            tx.execute("queue.set", queue=name, **wanted)
            tx.changed("queue", "set", name, **limits)
            tx.draw("directive")
            tx.something_to_claim = True
        if wanted["per_key"] != before.per_key:
            self._apply_per_key(name)
        return self.get(name)

    @retry_conflicts
    def pause(self, name: str | None = None, reason: str | None = None) -> list[str]:
        """Pause one queue or all, until they are resumed: no job is claimed, and running jobs go on.

        Returns:
            The queues that were not paused before.
        """
        with self._store.write(exclusive=True) as tx:
            target = self._known(tx, name)
            paused = tx.execute("queue.pause", queue=target, now=tx.now, by=tx.actor, reason=reason)
            self._directive(tx, "pause", target, bool(paused), by=tx.actor)
        return [paused_name for (paused_name,) in paused]

    @retry_conflicts
    def resume(self, name: str | None = None) -> list[str]:
        """Resume one queue, or all queues and each of them; return what was resumed."""
        with self._store.write(exclusive=True) as tx:
            target = self._known(tx, name)
            targets = [target] if name is not None else list(queues_by_name(tx.execute("queue.all")))
            resumed = [queue for queue in targets if tx.execute("queue.resume", queue=queue)]
            for queue in resumed:
                self._directive(tx, "resume", queue, True, by=tx.actor)
        return resumed

    def _known(self, tx: Transaction, name: str | None) -> str:
        if name is not None and (name == queues.ALL or not tx.one("queue.get", queue=name)):
            raise NotFound(f"there is no queue {name}: `rota queue list` shows those that are")
        return name or queues.ALL

    def _directive(self, tx: Transaction, verb: str, name: str, changed: bool, **facts: object) -> None:
        if changed:
            tx.changed("queue", verb, name, **facts)
            tx.draw("directive")
            tx.something_to_claim = True

    def _apply_per_key(self, name: str) -> None:
        """Let jobs in or hold them back as a changed limit requires, a batch at a time."""
        while self._hold_back(name):
            pass
        after: str | None = ""
        while after is not None:
            after = self._let_in(name, after)

    @retry_conflicts
    def _hold_back(self, name: str) -> bool:
        """Block a batch of ready jobs beyond their key's limit; return whether there may be more."""
        with self._store.write(exclusive=True) as tx:
            per_key = dependencies.queue_of(tx, name).per_key
            keys = [] if per_key is None else tx.execute("job.admitted_keys", queue=name, per_key=per_key, most=_BATCH)
            for (key,) in keys:
                last = scalar(tx.execute("job.last_ready_of_key", queue=name, limit_key=key))
                dependencies.move_to_rest(tx, jobs.BLOCK, dependencies.job_of(tx, last))
        return bool(keys)

    @retry_conflicts
    def _let_in(self, name: str, after: str) -> str | None:
        """Make waiting jobs ready that their key's limit has room for; return the last key, None at the end."""
        with self._store.write(exclusive=True) as tx:
            keys = [key for (key,) in tx.execute("job.crowded_keys", queue=name, after=after, most=_BATCH)]
            for key in keys:
                dependencies.admit_next(tx, name, key)
        return keys[-1] if len(keys) == _BATCH else None

    def counts(self) -> dict[str, dict[str, int]]:
        """Return how many jobs of each queue are in each state, without queues that never had a job."""
        counts: dict[str, dict[str, int]] = {}
        for name, status, n in self._store.database.execute("tally.all", {}):
            counts.setdefault(name, dict.fromkeys(jobs.STATES, 0))[status] = n
        return counts

    def list(self) -> list[QueueStatus]:
        database = self._store.database
        counts = self.counts()
        none: dict[str, int] = dict.fromkeys(jobs.STATES, 0)
        by_name = queues_by_name(database.execute("queue.all", {}))
        everything = by_name.pop(queues.ALL)
        statuses = []
        for name, queue in by_name.items():
            oldest = scalar(database.execute("queue.oldest_ready", {"queue": name}))
            statuses.append(QueueStatus(queue, counts.get(name, none), queue.paused_by or everything.paused_by, oldest))
        return statuses


def _check(limit: str, value: object) -> None:
    if limit not in LIMITS:
        raise BadInput(f"{limit!r} is not a limit of a queue: one of {', '.join(LIMITS)}")
    if value is None:
        return
    if limit == "rate":
        parse_rate(str(value))
    elif limit == "fence":
        if value not in ("tell", "end"):
            raise BadInput(f"fence is 'tell' or 'end', not {value!r}")
    else:
        whole(limit, value, 1, MOST)
