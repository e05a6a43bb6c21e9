"""The port for schedules: declare, add, pause and list them, and fire those that are due (decision 24)."""

from __future__ import annotations

from rota.core import schedule as core
from rota.core.errors import BadInput, Conflict, NotFound, QueueFull
from rota.core.job import NewJob
from rota.core.jsontext import Raw
from rota.core.times import format_instant
from rota.store import ownership
from rota.store.engine import locks
from rota.store.engine.rows import to_schedule
from rota.store.engine.transaction import retry_conflicts
from rota.store.jobs import enqueue, payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.job import Job
    from rota.core.schedule import Firing, NewSchedule, Schedule
    from rota.core.times import Instant
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

LONGEST_REASON = 200


class Schedules:
    """The port for schedules."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retry_conflicts
    def declare(self, declared: Sequence[NewSchedule]) -> None:
        """Write what an application declares, if anything changed. A paused schedule stays paused.

        Over HTTP a token declares only schedules of its own, and only with the scope `enqueue`: they add jobs.
        """
        known = {schedule.name: schedule for schedule in self.list()}
        for name in self._of_tokens():
            known.pop(name, None)
        changed = [each for each in declared if not _is_so(known.get(each.name), each)]
        if not changed:
            return
        with self._store.begin() as tx:
            ownership.queues(self._store, {each.queue for each in changed})
            new = len({each.name for each in changed} - known.keys())
            ownership.refuse_more(self._store, "schedule.count_of_token", new, ownership.MOST_SCHEDULES, "schedules")
            for each in sorted(changed, key=lambda each: each.name):
                tx.one("schedule.lock", name=each.name)
                ownership.schedule(self._store, each.name)
                _put(tx, _checked(tx, each), declared=True)
                access = self._store.access
                tx.execute("schedule.own", name=each.name, access=access and access.id)

    def _of_tokens(self) -> list[str]:
        """Return the schedules that a program beside the database takes over by declaring them, even unchanged.

        Otherwise a token that declared them first, just so, could change them later.
        """
        rows = [] if self._store.access is not None else self._store.database.execute("schedule.of_tokens", {})
        return [name for (name,) in rows]

    @retry_conflicts
    def add(self, new: NewSchedule) -> Schedule:
        """Add a schedule by hand, or change one that was added by hand."""
        with self._store.begin() as tx:
            new = _checked(tx, new)
            row = tx.one("schedule.lock", name=new.name)
            if row is not None and to_schedule(row).declared:
                raise Conflict(f"schedule {new.name} is declared by an app: change it there, or give this another name")
            _put(tx, new, declared=False)
        return self.get(new.name)

    def get(self, name: str) -> Schedule:
        rows = self._store.database.execute("schedule.get", {"name": name})
        if not rows:
            known = ", ".join(each.name for each in self.list()) or "none"
            raise NotFound(f"there is no schedule {name}; known: {known}")
        return to_schedule(rows[0])

    @retry_conflicts
    def pause(self, name: str, reason: str | None = None) -> Schedule:
        """Pause a schedule until it is resumed; pausing again changes nothing."""
        self.get(name)
        with self._store.write() as tx:
            _pause(tx, name, reason)
        return self.get(name)

    @retry_conflicts
    def resume(self, name: str) -> Schedule:
        """Resume a schedule from its next time on; the times that passed while it was paused add nothing."""
        with self._store.begin() as tx:
            schedule = self._locked(tx, name)
            next_at = core.following(schedule.cron, schedule.timezone, tx.wall)
            if tx.execute("schedule.resume", name=name, next_at=next_at):
                tx.changed("schedule", "resume", name)
                tx.something_to_claim = True
        return self.get(name)

    @retry_conflicts
    def remove(self, name: str) -> None:
        """Remove a schedule; its jobs stay. One that an app declares comes back with the app's next worker."""
        with self._store.write() as tx:
            self._locked(tx, name)
            tx.execute("schedule.remove", name=name)
            tx.changed("schedule", "remove", name)

    def run(self, name: str) -> Job:
        """Add a schedule's job now, besides those that it adds when it is due; paused or not."""
        return self._store.jobs.get(self._run(name))

    @retry_conflicts
    def _run(self, name: str) -> int:
        with self._store.begin() as tx:
            schedule = self._locked(tx, name)
            (id,) = _add(self._store, tx, schedule, 1)
            tx.execute("schedule.fired", name=name, now=tx.now, count=1, job=id, last_at=None)
            tx.changed("schedule", "run", name, job=id)
        return id

    def _locked(self, tx: Transaction, name: str) -> Schedule:
        row = tx.one("schedule.lock", name=name)
        return self.get(name) if row is None else to_schedule(row)

    def list(self) -> list[Schedule]:
        return [to_schedule(row) for row in self._store.database.execute("schedule.all", {})]


def fire_due(store: Store, tx: Transaction, rows: Sequence[Row]) -> None:
    """Fire due schedules: each moves on and adds its jobs in this transaction, unless another was first."""
    due = [to_schedule(row) for row in rows]
    free = locks.free_queues(tx, (schedule.queue for schedule in due))
    for schedule in due:
        if schedule.queue in free and schedule.next_at is not None:
            _fire(store, tx, schedule, schedule.next_at)


def _fire(store: Store, tx: Transaction, schedule: Schedule, was: Instant) -> None:
    name = schedule.name
    try:
        firing = core.fire(schedule, was, tx.wall)
    except BadInput as problem:
        # It was valid where it was declared, so this host does not know its time zone.
        _pause(tx, name, str(problem))
        return
    if not tx.execute("schedule.advance", name=name, was=was, next_at=firing.next_at):
        return
    try:
        _add_due(store, tx, schedule, firing)
    except QueueFull as problem:
        text = f"nothing was added at {format_instant(tx.wall)[:19]}Z: {problem}"
        tx.execute("schedule.refused", name=name, error=text)
        tx.changed("schedule", "refuse", name, error=text[:LONGEST_REASON])


def _add_due(store: Store, tx: Transaction, schedule: Schedule, firing: Firing) -> None:
    if not firing.times:
        tx.changed("schedule", "skip", schedule.name)
        return
    ids = _add(store, tx, schedule, len(firing.times))
    tx.many("schedule.mark", zip(firing.times, ids, strict=True))
    last = {"last_at": firing.times[-1], "job": ids[-1]}
    tx.execute("schedule.fired", name=schedule.name, now=tx.now, count=len(ids), **last)
    tx.changed("schedule", "fire", schedule.name, jobs=ids, at=format_instant(firing.times[-1]))


def _add(store: Store, tx: Transaction, schedule: Schedule, count: int) -> list[int]:
    job = enqueue.checked(_job(schedule.new))
    return enqueue.Addition(tx, store.settings.max_attempts).add([job] * count, [schedule.payload_json] * count)


def _job(new: NewSchedule) -> NewJob:
    known = {name: getattr(new, name) for name in ("queue", "kind", "priority", "max_attempts", "timeout")}
    return NewJob(new.name, **known)


def _checked(tx: Transaction, new: NewSchedule) -> NewSchedule:
    enqueue.checked(_job(new))
    if new.payload_json is not None:
        payload.encode(Raw(new.payload_json), "payload")
    return core.checked(new, tx.wall)


def _is_so(known: Schedule | None, declared: NewSchedule) -> bool:
    return known is not None and bool(known.declared) and known.new == declared


def _put(tx: Transaction, new: NewSchedule, declared: bool) -> None:
    """Write what a schedule declares; one with unchanged times keeps its next one."""
    row = tx.one("schedule.lock", name=new.name)
    known = to_schedule(row) if row is not None else None
    values = {name: getattr(new, name) for name in new._fields}
    if known is not None and (known.cron, known.timezone) == (new.cron, new.timezone):
        next_at = known.next_at
    else:
        next_at = core.following(new.cron, new.timezone, tx.wall)
    if known is None:
        tx.execute("schedule.make", declared=int(declared), next_at=next_at, now=tx.now, **values)
        tx.changed("schedule", "make", new.name, cron=new.cron)
    else:
        tx.execute("schedule.set", declared=int(declared), next_at=next_at, **values)
        tx.changed("schedule", "set", new.name, cron=new.cron)
    # Wake orchestrators, so that they ask again when the next schedule is due (decision 24).
    tx.something_to_claim = True


def _pause(tx: Transaction, name: str, reason: str | None) -> None:
    if tx.execute("schedule.pause", name=name, now=tx.now, reason=reason and reason[:LONGEST_REASON]):
        tx.changed("schedule", "pause", name, by=tx.actor, reason=reason and reason[:LONGEST_REASON])
