"""Pass a job's move on to the jobs that depend on it, and to those behind the same limit."""

from __future__ import annotations

from collections import namedtuple

from rota.core import job as jobs
from rota.core.errors import NotFound
from rota.core.job import rest
from rota.store.engine import locks
from rota.store.engine.rows import scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.job import Job
    from rota.core.queue import Queue
    from rota.core.times import Instant
    from rota.documents import Document
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

CHUNK = 1000
# A row of `dependency.dependents`, `job.due`, `job.blocked_from` or `job.unknown`. `waits`: the job must wait for other
# jobs, or may have to.
WaitingJob = namedtuple("WaitingJob", "id queue limit_key due_at due_wall waits")
MOST_NODES, MOST_STEPS = 60, 4  # of the graph around a job


def queue_of(tx: Transaction, name: str) -> Queue:
    """Return a queue with its limits, locked if it has any."""
    found = locks.queue(tx, name)
    assert found is not None, f"job of a queue that is not there: {name}"
    return found


def job_of(tx: Transaction, id: int) -> Job:
    """Return a job that is about to be changed, locked, with everything that must be locked before it."""
    found = locks.job(tx, id)
    if found is None:
        raise NotFound(f"there is no job {id}")
    return found


def is_due(tx: Transaction, due_at: Instant | None, due_wall: int) -> bool:
    return due_at is None or due_at <= (tx.wall if due_wall else tx.now)


def is_crowded(tx: Transaction, queue: str, limit_key: str | None, job_id: int) -> bool:
    """Return whether as many jobs of this key as its queue allows are ready or running, not counting this one."""
    if limit_key is None:
        return False
    per_key = queue_of(tx, queue).per_key
    if per_key is None:
        return False
    admitted = tx.execute("job.count_admitted", queue=queue, limit_key=limit_key, id=job_id, most=per_key)
    return bool(scalar(admitted) >= per_key)


def resting(tx: Transaction, job: Job, due_at: Instant | None, due_wall: int = 0) -> tuple[str, str | None]:
    """Return the state in which a job without a claim rests, by its dependencies, its time and its limit."""
    waits = tx.one("dependency.open", job=job.id) is not None
    due = is_due(tx, due_at, due_wall)
    return rest(waits, due, not waits and due and is_crowded(tx, job.queue, job.limit_key, job.id))


def move_to_rest(tx: Transaction, verb: str, job: Job) -> str:
    """Move a waiting job to the state in which it rests now, and return that state."""
    status, blocked_on = resting(tx, job, job.due_at, job.due_wall)
    if (status, blocked_on) != (job.status, job.blocked_on):
        tx.execute("job.rest", id=job.id, old=job.status, status=status, blocked_on=blocked_on)
        if status != job.status:
            tx.moved(verb, job.queue, job.status, status, [job.id])
            left(tx, job.queue, job.limit_key, job.status, status)
    return status


def left(tx: Transaction, queue: str, limit_key: str | None, old: str, new: str) -> None:
    """Let the next job of a key in if this one no longer counts against the limit."""
    admitted = (jobs.READY, jobs.ACTIVE)
    if limit_key is not None and old in admitted and new not in admitted:
        admit_next(tx, queue, limit_key)


def admit_next(tx: Transaction, queue: str, limit_key: str) -> None:
    """Make the best waiting jobs of a key ready, as far as its limit has room."""
    while not is_crowded(tx, queue, limit_key, 0):
        row = tx.one("job.next_crowded", queue=queue, limit_key=limit_key)
        if row is None:
            return
        (id,) = row
        if waits_again(tx, jobs.UNBLOCK, id, queue, jobs.BLOCKED):
            continue
        tx.many("job.make_ready", [(id,)])
        tx.moved(jobs.UNBLOCK, queue, jobs.BLOCKED, jobs.READY, [id])


def waits_again(tx: Transaction, verb: str, id: int, queue: str, old: str) -> bool:
    """Block a job again that a limit or its time held back, if a job that it depends on was retried since."""
    locks.all_jobs(tx, [id])
    if tx.one("dependency.open", job=id) is None:
        return False
    tx.execute("job.rest", id=id, old=old, status=jobs.BLOCKED, blocked_on=jobs.DEPENDENCY)
    if old != jobs.BLOCKED:
        tx.moved(verb, queue, old, jobs.BLOCKED, [id])
    return True


def ripple(tx: Transaction, job_id: int, after: int = 0) -> int:
    """Let the jobs go on that waited for one that is over; return how many were looked at.

    One chunk: the rest of a very long list is remembered and goes on with the next maintenance tick.
    """
    locks.dependents(tx, job_id, after, CHUNK)
    rows = tx.execute("dependency.dependents", needs=job_id, after=after, most=CHUNK)
    waiting = list(map(WaitingJob._make, rows))
    unblock(tx, jobs.UNBLOCK, (job for job in waiting if not job.waits))
    if len(waiting) == CHUNK:
        tx.execute("dependency.keep_ripple", job=job_id, last=waiting[-1].id)
    elif after:
        tx.execute("dependency.end_ripple", job=job_id)
    return len(waiting)


def unblock(tx: Transaction, verb: str, free: Iterable[WaitingJob]) -> None:
    """Make jobs ready that wait for no other job any more, or let them wait for their time or their limit."""
    old = jobs.SCHEDULED if verb == jobs.DUE else jobs.BLOCKED
    ready: dict[str, list[int]] = {}
    for job in free:
        due = is_due(tx, job.due_at, job.due_wall)
        if due and job.limit_key is None:
            ready.setdefault(job.queue, []).append(job.id)
            continue
        status, blocked_on = rest(False, due, due and is_crowded(tx, job.queue, job.limit_key, job.id))
        tx.execute("job.rest", id=job.id, old=old, status=status, blocked_on=blocked_on)
        if status != old:
            tx.moved(verb, job.queue, old, status, [job.id])
    for queue, ids in ready.items():
        tx.many("job.make_ready", [(id,) for id in ids])
        tx.moved(verb, queue, old, jobs.READY, ids)


def around(store: Store, id: int) -> Document:
    """Return the jobs a few steps around one: nodes, and edges from a job to one that it needs.

    `is_whole` is false when something was left out.
    """
    execute = store.database.execute
    store.jobs.get(id)
    reached, edges, is_whole = {id: None}, set(), True
    for upwards in (True, False):
        layer = [id]
        for step in range(MOST_STEPS + 1):
            beyond: list[int] = []
            for node in layer:
                if upwards:
                    neighbours = [needs for needs, _ in execute("dependency.of_job", {"job": node})]
                else:
                    neighbours = [
                        job for (job,) in execute("dependency.waiting_for", {"needs": node, "most": MOST_NODES + 1})
                    ]
                for neighbour in neighbours:
                    if neighbour not in reached and (step == MOST_STEPS or len(reached) >= MOST_NODES):
                        is_whole = False
                        continue
                    if neighbour not in reached:
                        reached[neighbour] = None
                        beyond.append(neighbour)
                    edges.add((node, neighbour) if upwards else (neighbour, node))
            layer = beyond
    for node in reached:
        # Two jobs that were reached on different paths may depend on each other.
        edges |= {(node, needs) for needs, _ in execute("dependency.of_job", {"job": node}) if needs in reached}
    nodes = []
    for node in sorted(reached):
        for row in execute("job.brief", {"id": node}):
            nodes.append(dict(zip(("id", "title", "queue", "status"), row, strict=True)))
    return {"nodes": nodes, "edges": sorted(edges), "is_whole": is_whole}
