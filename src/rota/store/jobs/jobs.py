"""The port for jobs: add, read, list, search, settle by hand, cancel, retry and wait."""

from __future__ import annotations

import time

from rota.core import job as jobs
from rota.core.claim import Cancelled, Done, Failed, Snoozed
from rota.core.errors import BadInput, Conflict, Cycle, NotFound, QueueFull, Refused, Stale, WaitedTooLong
from rota.core.ids import whole
from rota.core.job import Needed
from rota.core.jsontext import compact
from rota.core.queue import allow
from rota.core.record import Record
from rota.core.source import is_internal
from rota.core.times import LONGEST, SECOND
from rota.store import ownership
from rota.store.claims import settle
from rota.store.engine.rows import to_job
from rota.store.engine.transaction import retry_conflicts
from rota.store.jobs import dependencies, payload
from rota.store.jobs.enqueue import Addition, checked, depend
from rota.store.metrics import count_stale

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from rota.core.job import Job
    from rota.core.queue import Queue
    from rota.core.times import Duration
    from rota.store.jobs.enqueue import NewJob
    from rota.store.store import Store

_WAITED_FOR = {
    "done": (jobs.DONE,),
    "final": jobs.FINAL,
    "active": (jobs.ACTIVE, *jobs.FINAL),
    "ready": tuple(set(jobs.STATES) - {"blocked", "scheduled"}),
}
CONDITIONS = tuple(_WAITED_FOR)
LOOKED_AT = 100_000
LARGEST_PAGE = 8 * 1024 * 1024  # bytes of what jobs hold, beyond which a page ends


class Page(Record):
    """The jobs that a search looks at, newest first."""

    status: str | None = None
    queue: str | None = None
    limit: int = 50
    before: int | None = None
    internal: bool = False


class Jobs:
    """The port for jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, new: NewJob, wait: Duration = 0) -> Job:
        """Make a job durable.

        Args:
            new: What to add. If its key is taken, the job that has it is returned.
            wait: How long to wait for room in a full queue.

        Raises:
            BadInput: Something about the job is wrong.
            QueueFull: The queue was still full after the wait.
        """
        (id,) = self.add_many([new], wait)
        return self.get(id)

    def add_many(self, new: Iterable[NewJob], wait: Duration = 0) -> list[int]:
        """Make many jobs durable in one transaction, all or none, and return their ids in order."""
        wanted = [checked(job) for job in new]
        texts = [payload.encode(job.payload, "payload") for job in wanted]
        deadline = time.monotonic() + wait / SECOND
        while True:
            try:
                return self._add(wanted, texts)
            except QueueFull:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise
                self._wait_for_change(min(left, self._store.settings.poll_interval / SECOND))

    @retry_conflicts
    def _add(self, wanted: Sequence[NewJob], texts: Sequence[str | None]) -> list[int]:
        is_plain = len(wanted) == 1 and wanted[0].is_plain
        if is_plain and (added := self._add_plain(wanted[0], texts[0])):
            return added
        with self._store.begin() as tx:
            ownership.queues(self._store, {new.queue for new in wanted})
            return Addition(tx, self._store.settings.max_attempts).add(wanted, texts)

    def _add_plain(self, new: NewJob, text: str | None) -> list[int]:
        """Add a plain job in one message (decision 25); return no id where something must be looked up first."""
        self._store.check_not_outdated()
        attempts = new.max_attempts or self._store.settings.max_attempts
        work = {"queue": new.queue, "kind": new.kind, "title": new.title, "payload": text, "priority": new.priority}
        more = {"max_attempts": attempts, "timeout": new.timeout, "trace": new.trace, "actor": self._store.actor}
        database, access = self._store.database, self._store.access
        ids = [id for (id,) in database.change("job.add_plain", {**work, **more, "access": access and access.id})]
        if ids:
            database.notify()
        return ids

    def get(self, id: int) -> Job:
        """Return one job, with what it depends on and its children."""
        rows = self._store.database.execute("job.get", {"id": id})
        if not rows:
            raise NotFound(f"there is no job {id}")
        return self._with_relations(to_job(rows[0]))

    def ready(self, queue: str | None = None, limit: int = 10) -> list[Job]:
        """Return the jobs that can be claimed now, best first."""
        self._store.tick()
        found: list[Job] = []
        for each in self._store.queues.open_ones(queue):
            if each.is_limited and not self._has_room(each):
                continue
            rows = self._store.database.execute("job.ready", {"queue": each.name, "most": limit})
            found += [to_job(row) for row in rows]
            found = sorted(found, key=lambda job: (-job.priority, job.id))[:limit]
        return self._all_with_relations(found)

    @retry_conflicts
    def block(self, id: int, on: int) -> Job:
        """Let a job wait for another.

        Raises:
            Cycle: The other job waits for this one.
            Conflict: The job no longer waits.
        """
        with self._store.write(exclusive=True) as tx:
            job, needed = dependencies.job_of(tx, id), dependencies.job_of(tx, on)
            if on == id or tx.one("dependency.reaches", from_job=on, to_job=id):
                raise Cycle(f"job {id} cannot wait for job {on}: job {on} waits for job {id} already")
            if job.status not in jobs.WAITING:
                raise Conflict(f"job {id} is {job.status}: only a job that waits can be made to wait for another")
            depend(tx, id, [on])
            tx.changed("job", "depend", str(id), on=on)
            if needed.status != jobs.DONE:
                dependencies.move_to_rest(tx, jobs.BLOCK if job.status != jobs.BLOCKED else jobs.UNBLOCK, job)
        return self.get(id)

    @retry_conflicts
    def unblock(self, id: int, on: int) -> Job:
        """Let a job no longer wait for another."""
        with self._store.write(exclusive=True) as tx:
            job = dependencies.job_of(tx, id)
            if not tx.execute("dependency.remove", job=id, needs=on):
                raise NotFound(f"job {id} does not wait for job {on}")
            tx.many("dependency.count_dependents", [(-1, on)])
            tx.changed("job", "undepend", str(id), on=on)
            if job.status == jobs.BLOCKED:
                dependencies.move_to_rest(tx, jobs.UNBLOCK, job)
        return self.get(id)

    def done(self, id: int, result: Any = None, force: bool = False) -> Job:
        """Settle a job as done without its claim's token.

        Args:
            id: The job.
            result: Its result, which JSON can hold.
            force: Also where only the token would settle it, or where nobody holds it.

        Raises:
            Stale: Its worker is supervised, or an earlier claim lapsed: only the token settles it.
            Conflict: It is over already, or nobody holds it.
        """
        return self._settle_unfenced(id, Done(payload.encode(result, "result")), force)

    def fail(self, id: int, error: str, again: bool = True, force: bool = False) -> Job:
        """Settle a job as failed without its claim's token, under the rules of `done`."""
        return self._settle_unfenced(id, Failed(error, again), force)

    def snooze(self, id: int, delay: Duration, note: str | None = None) -> Job:
        """Put off a claimed job without its claim's token, under the rules of `done`; spends no attempt."""
        whole("a delay in microseconds", delay, 1, LONGEST)
        return self._settle_unfenced(id, Snoozed(delay, note), False)

    def results(self, id: int, token: int | None = None) -> list[Needed]:
        """Return the results of the jobs that one depends on, by their ids. `token`: its holder asks."""
        self.get(id)
        return [Needed(*row) for row in self._store.database.execute("dependency.results", {"job": id})]

    @retry_conflicts
    def cancel(self, id: int) -> Job:
        """Cancel a job in any state that is not final; its holder's outcome will be refused."""
        store = self._store
        with store.write() as tx:
            job = dependencies.job_of(tx, id)
            if job.status == jobs.ACTIVE:
                settle.end_claim(tx, job, Cancelled(tx.actor), store.settings.backoff, store.chance())
                tx.draw("directive")
                tx.something_to_claim = True
            elif job.status in jobs.FINAL:
                raise Conflict(f"job {id} is {job.status} already")
            else:
                settle.end_unheld(tx, jobs.CANCEL, job, jobs.CANCELLED, None, f"cancelled by {tx.actor}")
        return self.get(id)

    @retry_conflicts
    def retry(self, id: int) -> Job:
        """Start a new generation of a final job, with all its attempts."""
        with self._store.write() as tx:
            job = dependencies.job_of(tx, id)
            if job.status not in jobs.FINAL:
                raise Conflict(
                    f"job {id} is {job.status}: only a job that is done, failed or cancelled can be tried again"
                )
            status, blocked_on = dependencies.resting(tx, job, None)
            tx.execute("job.retry", id=id, old=job.status, status=status, blocked_on=blocked_on)
            tx.moved(jobs.RETRY, job.queue, job.status, status, [id])
        return self.get(id)

    def why(self, id: int) -> str:
        """Explain in one sentence why a job is not running."""
        from rota.store.jobs.explain import why

        return why(self._store, self.get(id))

    def wait(self, ids: Sequence[int], condition: str = "final", timeout: Duration | None = None) -> list[Job]:
        """Wait until each job is `done`, `final`, `active` or `ready`.

        Raises:
            Conflict: A job can no longer get there.
            WaitedTooLong: Some are not there after `timeout`.
        """
        wanted = _WAITED_FOR[condition]
        deadline = None if timeout is None else time.monotonic() + timeout / SECOND
        listener = self._store.database.listen(events=True)
        try:
            while True:
                self._store.tick()
                found = [self.get(id) for id in ids]
                for job in found:
                    if job.status in jobs.FINAL and job.status not in wanted:
                        reason = job.error or "no reason given"
                        raise Conflict(f"job {job.id} is {job.status}, so it will not be {condition}: {reason}")
                if all(job.status in wanted for job in found):
                    return found
                left = self._store.settings.poll_interval / SECOND
                if deadline is not None:
                    left = min(left, deadline - time.monotonic())
                if left <= 0:
                    waiting = ", ".join(f"{job.id} ({job.status})" for job in found if job.status not in wanted)
                    raise WaitedTooLong(f"still not {condition}: job {waiting}")
                listener.wait(left)
        finally:
            listener.close()

    @count_stale
    @retry_conflicts
    def _settle_unfenced(self, id: int, outcome: Done | Failed | Snoozed, force: bool) -> Job:
        store = self._store
        with store.write() as tx:
            job = dependencies.job_of(tx, id)
            if is_internal(job.queue):
                raise Refused(f"job {id} is rota's own: it fills a queue from source {job.source}, again and again")
            if job.status in jobs.FINAL:
                raise Conflict(f"job {id} is {job.status} already")
            if job.status != jobs.ACTIVE:
                if not force or isinstance(outcome, Snoozed):
                    instead = "" if isinstance(outcome, Snoozed) else ", or settle it with --force"
                    raise Conflict(f"job {id} is {job.status} and nobody holds it: claim it first{instead}")
                status = jobs.DONE if isinstance(outcome, Done) else jobs.FAILED
                result, error = (outcome.result, None) if isinstance(outcome, Done) else (None, outcome.error)
                settle.end_unheld(tx, jobs.FORCE, job, status, result, error)
            else:
                if not force:
                    _refuse_unfenced(job)
                settle.end_claim(tx, job, outcome, store.settings.backoff, store.chance())
                tx.changed("job", "unfenced", str(id), token=job.token, forced=force)
                if job.orchestrator is not None:
                    tx.draw("directive")
                    tx.something_to_claim = True
        return self.get_or(
            job.replace(status=jobs.DONE, finished_at=tx.now, result_json=getattr(outcome, "result", None))
        )

    def some(self, ids: Sequence[int]) -> dict[int, Job]:
        """Return those of these jobs that exist, without their dependencies and children."""
        rows = self._store.database.execute("job.some", {"ids": compact(ids)}) if ids else []
        return {job.id: job for job in map(to_job, rows)}

    def get_or(self, done: Job) -> Job:
        """Return a job as it is now, or `done` if it came from a source and so is gone once it is done."""
        rows = self._store.database.execute("job.get", {"id": done.id})
        return self._with_relations(to_job(rows[0])) if rows else done

    def has_claimable(self, queue: Queue) -> bool:
        """Return whether a job of this open queue can be claimed now."""
        found = self._store.database.execute("job.ready", {"queue": queue.name, "most": 1})
        return bool(found) and self._has_room(queue)

    def _has_room(self, queue: Queue) -> bool:
        counts: dict[str, int] = dict(self._store.database.execute("tally.of_queue", {"queue": queue.name}))
        return allow(queue, counts.get(jobs.ACTIVE, 0), 1, self._store.now()).granted > 0

    def _with_relations(self, job: Job) -> Job:
        return self._all_with_relations([job])[0]

    def _all_with_relations(self, found: Sequence[Job]) -> list[Job]:
        """Add to jobs what each depends on and its children."""
        after: dict[int, list[int]] = {}
        children: dict[int, list[int]] = {}
        asked = {"ids": compact([job.id for job in found])}
        for kind, id, other in self._store.database.execute("job.relations", asked):
            (after if kind == "after" else children).setdefault(id, []).append(other)
        return [
            job.replace(after=tuple(after.get(job.id, ())), children=tuple(children.get(job.id, ())))
            if job.id in after or job.id in children
            else job
            for job in found
        ]

    def _wait_for_change(self, seconds: float) -> None:
        listener = self._store.database.listen(events=True)
        try:
            listener.wait(seconds)
        finally:
            listener.close()

    def held(self, limit: int = 50, internal: bool = False) -> list[Job]:
        """Return active jobs, the longest held first, without their dependencies and children."""
        params = {"most": limit, "internal": int(internal)}
        return [to_job(row) for row in self._store.database.execute("job.list_held", params)]

    def list(
        self,
        status: str | None = None,
        queue: str | None = None,
        limit: int = 50,
        before: int | None = None,
        internal: bool = False,
    ) -> list[Job]:
        """Return jobs, the newest first; `before` is the id to page on from. With `internal`, rota's own too."""
        if status is not None and status not in jobs.STATES:
            raise BadInput(f"{status!r} is not a job's state: one of {', '.join(jobs.STATES)}")
        name = f"job.list_{status}" if status in (jobs.ACTIVE, jobs.FAILED) else "job.list"
        params = {
            "status": status,
            "queue": queue,
            "before": before or 1 << 62,
            "most": limit,
            "internal": int(internal),
        }
        return self._all_with_relations([to_job(row) for row in self._store.database.execute(name, params)])


def _refuse_unfenced(job: Job) -> None:
    """Refuse to settle without a token where a late holder could be mistaken for the current one."""
    if job.orchestrator is not None:
        raise Stale(
            f"job {job.id} is held by {job.worker_id}, which is watched: only its token settles it (or --force)"
        )
    if job.lapses:
        raise Stale(f"an earlier claim on job {job.id} lapsed: only the current token settles it (or --force)")


def search(store: Store, text: str, page: Page) -> tuple[list[Job], int | None]:
    """Return the newest jobs that contain a text, and the id before which to search on; None at the end.

    One search looks at a bounded number of jobs, so that it is quick among millions: it may find none and go on.
    """
    before = page.before or 1 << 62
    ((lowest, count),) = store.database.execute("job.stretch", {"before": before, "window": LOOKED_AT})
    if lowest is None:
        return [], None
    params = {
        "pattern": _pattern(text),
        "status": page.status,
        "queue": page.queue,
        "before": before,
        "from_id": lowest,
        "most": page.limit,
        "internal": int(page.internal),
    }
    ids: list[int] = [id for (id,) in store.database.execute("job.search", params)]
    found: list[Job] = []
    size = 0
    for id in ids:
        if size >= LARGEST_PAGE:
            return found, found[-1].id
        found.append(store.jobs.get(id))
        size += weight(found[-1])
    return found, ids[-1] if len(ids) == page.limit else lowest if count == LOOKED_AT else None


def weight(job: Job) -> int:
    """Return how many characters of JSON a job holds."""
    return sum(len(text) for text in (job.payload_json, job.result_json, job.checkpoint_json) if text)


def _pattern(text: str) -> str:
    """Return the LIKE pattern for a text anywhere in a column."""
    escaped = text.lower()
    for special in "!%_":
        escaped = escaped.replace(special, f"!{special}")
    return f"%{escaped}%"
