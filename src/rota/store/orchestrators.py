"""What an orchestrator asks of the store: its lease, and the exchange of outcomes for claims."""

from __future__ import annotations

import os

from rota.core import job as jobs
from rota.core import orchestrator as orchestrators
from rota.core import worker as workers
from rota.core.claim import Done, Released, verb_of
from rota.core.errors import NotFound, Stale
from rota.core.orchestrator import LEASE
from rota.core.queue import allow
from rota.core.record import Record
from rota.store import ending, hold, tend
from rota.store.again import again
from rota.store.host import host_id
from rota.store.rows import to_job, to_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rota.core.claim import Outcome
    from rota.core.queue import Queue
    from rota.core.restart import RestartPolicy
    from rota.core.times import Duration, Instant
    from rota.store.deaths import Death
    from rota.store.rows import Row
    from rota.store.slots import Slot
    from rota.store.store import Store
    from rota.store.transaction import Transaction

    Settled = tuple[int, int, Outcome]


class Idle(Record):
    """A worker with room for this many jobs of a queue."""

    worker_id: str
    queue: str
    room: int = 1


class Handout(Record):
    """A claim as its worker gets it, with what the handler needs."""

    job_id: int
    token: int
    worker_id: str
    queue: str
    kind: str
    title: str
    payload_json: str | None
    attempt: int
    max_attempts: int
    timeout: Duration | None
    checkpoint_json: str | None


class Wishes(Record):
    """What people wish of an orchestrator, numbered so that it can answer, and what such a wish may touch."""

    number: int
    slots: list[Slot]
    held: frozenset[int]
    to_stop: frozenset[str]


class Exchange(Record):
    """What an exchange answered: the claims made, the tokens whose outcome was refused, and its running number."""

    claims: list[Handout]
    refused: list[int]
    number: int


class Orchestrators:
    """The port for orchestrators."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @again
    def join(self, crew: str = "main") -> int:
        """An orchestrator begins; its number."""
        from rota.core.version import __version__

        with self._store.begin() as tx:
            id = tx.draw("orchestrator")
            place = {"host": host_id(), "hostname": os.uname().nodename, "pid": os.getpid(), "version": __version__}
            tx.execute("orchestrator.join", id=id, crew=crew, now=tx.now, lease_expires_at=tx.now + LEASE, **place)
            tx.execute("orchestrator.beat_pulse", now=tx.now)
            tx.tell("orchestrator", "start", str(id), crew=crew)
        return id

    @again
    def renew(self, id: int, answered_wish: int = 0) -> Instant:
        """Renew the lease on which all its claims hang; until when."""
        with self._store.write() as tx:
            row = tx.one("orchestrator.renew", id=id, lease_expires_at=tx.now + LEASE, answered_wish=answered_wish)
            if row is None:
                raise Stale(f"orchestrator {id} was given up: its workers count as lost")
            tx.execute("orchestrator.beat_pulse", now=tx.now)
            until: Instant = row[0]
            return until

    @again
    def hire(self, id: int, slot: str, queue: str, pid: int | None = None) -> str:
        """A worker life that this orchestrator watches; its id."""
        worker = self._store.new_worker_id()
        with self._store.write() as tx:
            hold.orchestrator(tx, id)
            row = tx.one("orchestrator.get", id=id)
            if row is None or row[1] == orchestrators.STOPPED:
                raise NotFound(f"there is no running orchestrator {id}")
            place = {"hostname": os.uname().nodename, "host": host_id(), "pid": pid, "version": None, "metadata": None}
            watched = {"orchestrator": id, "slot": slot, "queue": queue, "check_at": None, "heartbeat_interval": None}
            tx.execute("worker.insert", id=worker, name=slot, status=workers.IDLE, now=tx.now, **place, **watched)
            tx.tell("worker", workers.REGISTER, worker, slot=slot)
        return worker

    @again
    def bury(self, worker: str, verdict: workers.Dead) -> None:
        """A watched worker died: its certificate, and its claims back, in one transaction."""
        with self._store.write() as tx:
            tend.bury(self._store, tx, worker, verdict)

    @again
    def record_death(
        self, death: Death, outcomes: Sequence[Settled], policy: RestartPolicy
    ) -> tuple[Duration | None, str | None]:
        """A watched worker is gone: see `rota.store.deaths`. After how long its slot starts again, or None and why."""
        from rota.store.deaths import record

        with self._store.write() as tx:
            hold.worker(tx, death.worker_id)
            self._settle(tx, outcomes)
            return record(self._store, tx, death, policy)

    @again
    def exchange(
        self,
        id: int,
        number: int,
        outcomes: Sequence[Settled],
        idle: Sequence[Idle],
        holdings: Collection[int] | None = None,
    ) -> Exchange:
        """Settle what workers report and claim for those with room, in one transaction.

        `number` is the running number of the last exchange; a late one is refused. `holdings`, given after a lost
        answer, are all tokens still held: whatever else hangs on this orchestrator goes back unspent. Nothing to do
        writes nothing.
        """
        if not outcomes and holdings is None and not self._anything_for(idle):
            return Exchange([], [], number)
        with self._store.write(f"orchestrator-{id}") as tx:
            mine = {"id": id, "number": number + 1, "lease_expires_at": tx.now + LEASE}
            tx.foresee("orchestrator.advance", **mine)
            tx.foresee("queue.all")
            tx.foresee("tend.due", now=tx.now, wall=tx.wall)
            tx.foresee("worker.of_orchestrator", orchestrator=id)
            if not tx.execute("orchestrator.advance", **mine):
                raise Stale(f"exchange {number + 1} of orchestrator {id} came late, or it was given up")
            queues = hold.queues(tx, (each.queue for each in idle), [job for job, _, _ in outcomes])
            settled, finished = self._settle(tx, outcomes)
            if holdings is not None:
                self._give_back(tx, id, holdings)
            claims = self._claim(tx, id, idle, queues)
            _mirror(tx, finished, claims)
            return Exchange(claims, self._refused(tx, outcomes, settled), number + 1)

    def wishes(self, id: int, crew: str) -> Wishes:
        """The last wish, with the crew's slots, the tokens that still hold and the workers that should stop."""
        database = self._store.database
        ((number,),) = database.execute("number.get", {"name": "wish"})
        held = frozenset(to_job(row).token or 0 for row in database.execute("orchestrator.held", {"id": id}))
        to_stop = frozenset(row[0] for row in database.execute("worker.to_stop", {"orchestrator": id}))
        return Wishes(number, self._store.slots.of_crew(crew, host_id()), held, to_stop)

    @again
    def leave(self, id: int) -> None:
        """An orchestrator ends: what still hangs on it goes back unspent, its workers are stopped."""
        with self._store.write() as tx:
            hold.orchestrator(tx, id)
            self._give_back(tx, id, ())
            for (worker,) in tx.execute("worker.of_orchestrator", orchestrator=id):
                tend.deregister(self._store, tx, worker, "stop")
            if tx.execute("orchestrator.end", id=id):
                tx.tell("orchestrator", "end", str(id))

    def _anything_for(self, idle: Sequence[Idle]) -> bool:
        """Whether a claim might succeed: read before writing."""
        names = {each.queue for each in idle if each.room > 0}
        for queue in self._store.queues.open_ones():
            if queue.name in names and self._store.database.execute("job.ready", {"queue": queue.name, "most": 1}):
                return True
        return tend.anything_due(self._store)

    def _settle(self, tx: Transaction, outcomes: Sequence[Settled]) -> tuple[set[int], dict[str, int]]:
        """Settle what was reported: the tokens that still held, and how many jobs each worker finished."""
        done = [(outcome.result, job, token) for job, token, outcome in outcomes if isinstance(outcome, Done)]
        if len(done) < len(outcomes):
            hold.all_jobs(tx, (job for job, _, _ in outcomes))
        settled, finished = ending.finish(tx, done)
        for job_id, token, outcome in outcomes:
            if isinstance(outcome, Done):
                continue
            row = tx.one("job.lock", id=job_id)
            job = to_job(row) if row else None
            if job and job.status == jobs.ACTIVE and job.token == token:
                ending.end_claim(tx, job, outcome, self._store.settings.backoff, self._store.chance())
                settled.add(token)
        return settled, finished

    def _refused(self, tx: Transaction, outcomes: Sequence[Settled], settled: set[int]) -> list[int]:
        """The tokens that no longer held; settling again with the token that settled is no error."""
        refused = []
        for job_id, token, outcome in outcomes:
            if token not in settled:
                row = tx.one("claim.run", token=token)
                ended = to_run(row) if row else None
                if ended is None or ended.job_id != job_id or ended.verb != verb_of(outcome):
                    refused.append(token)
        return refused

    def _give_back(self, tx: Transaction, id: int, holdings: Collection[int]) -> None:
        for row in tx.execute("orchestrator.held", id=id):
            job = to_job(row)
            if job.token not in holdings:
                ending.end_claim(
                    tx, job, Released(reason="unknown"), self._store.settings.backoff, self._store.chance()
                )

    def _claim(self, tx: Transaction, id: int, idle: Sequence[Idle], queues: list[Row] | None) -> list[Handout]:
        tend.tend(self._store, tx)
        living = {worker for (worker,) in tx.execute("worker.of_orchestrator", orchestrator=id)}
        wanted: dict[str, list[Idle]] = {}
        for each in idle:
            if each.room > 0 and each.worker_id in living:
                wanted.setdefault(each.queue, []).append(each)
        claims: list[Handout] = []
        for queue in self._store.queues.open_ones(rows=queues):
            if queue.name in wanted:
                claims += _hand_out(tx, id, queue, wanted[queue.name])
        return claims


def _hand_out(tx: Transaction, id: int, queue: Queue, idle: Sequence[Idle]) -> list[Handout]:
    """Claim the best ready jobs of a queue and deal them out, one to each in turn, in token order."""
    want = sum(each.room for each in idle)
    if queue.is_limited:
        allowance = allow(queue, tx.running(queue.name) if queue.concurrency is not None else 0, want, tx.now)
        want = allowance.granted
    picked = tx.execute("claim.pick", queue=queue.name, most=want) if want else []
    if not picked:
        return []
    if queue.rate is not None:
        spent = allow(queue, 0, len(picked), tx.now)
        tx.execute("queue.spend_rate", queue=queue.name, rate_next_at=spent.rate_next_at)
    claims: list[Handout] = []
    taken: list[Row] = []
    ids: dict[str, list[int]] = {}
    drawn = [row[-1] for row in picked] if picked[0][-1] else tx.draw_many("token", len(picked))
    for worker, row, token in zip(_deal(idle), picked, drawn, strict=False):
        job_id, kind, title, payload, attempts, max_attempts, timeout, checkpoint, _ = row
        taken.append((token, worker, id, tx.now, None, None, job_id))
        ids.setdefault(worker, []).append(job_id)
        claims.append(
            Handout(
                job_id, token, worker, queue.name, kind, title, payload, attempts + 1, max_attempts, timeout, checkpoint
            )
        )
    tx.many("claim.take", taken)
    for worker, held in ids.items():
        tx.moved(jobs.CLAIM, queue.name, jobs.READY, jobs.ACTIVE, held, worker=worker)
    return claims


def _mirror(tx: Transaction, finished: dict[str, int], claims: Sequence[Handout]) -> None:
    """Show in the workers' rows what they finished and what they hold now."""
    first = {claim.worker_id: claim.job_id for claim in reversed(claims)}
    tx.many("worker.exchanged", [(finished.get(worker, 0), job, worker) for worker, job in sorted(first.items())])
    for worker, count in finished.items():
        if worker not in first:
            tx.execute("worker.settled", id=worker, succeeded=count, failed=0, error=None, now=tx.now)


def _deal(idle: Sequence[Idle]) -> list[str]:
    """Whose turn it is, until all room is used: one each, round by round."""
    turns: list[str] = []
    for turn in range(max(each.room for each in idle)):
        turns += [each.worker_id for each in idle if each.room > turn]
    return turns
