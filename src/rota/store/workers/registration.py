"""External workers: they register, send heartbeats and leave. Supervised ones are written by `orchestrators`."""

from __future__ import annotations

import os

from rota.core import worker as workers
from rota.core.errors import BadInput, Conflict, NotFound, Refused, UnknownWorker
from rota.core.ids import queue_name, whole
from rota.core.jsontext import encode
from rota.core.record import Record
from rota.core.times import LONGEST, SECOND
from rota.store import ownership
from rota.store.engine.rows import to_job, to_worker
from rota.store.engine.transaction import retry_conflicts
from rota.store.maintenance import tick
from rota.store.open import implicit_id, implicit_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.job import Job
    from rota.core.times import Duration, Instant
    from rota.core.worker import Worker
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store


ELSEWHERE = "elsewhere"  # the host of a worker whose process nobody can look for


class Certificate(Record):
    """How a worker died."""

    died_at: Instant
    reason: str
    text: str | None
    exit_code: int | None
    signal: int | None
    sent_by: str | None
    job: int | None
    slot: str | None
    usage_json: str | None
    last_frame: str | None
    stderr_tail: str | None
    began_at: Instant | None = None


class Workers:
    """The port for workers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retry_conflicts
    def register(
        self,
        name: str,
        every: Duration | None = None,
        pid: int | None = None,
        queue: str | None = None,
        elsewhere: str | None = None,
    ) -> Worker:
        """Register a worker that sends a heartbeat `every` so often; over HTTP it belongs to the caller's token.

        `elsewhere`: it runs on another host of this name, empty if unknown, whose processes cannot be watched here.
        """
        interval = self._store.settings.heartbeat_interval if every is None else every
        if interval < SECOND // 10:
            raise BadInput("a worker cannot beat more often than every 100ms")
        whole("its interval in microseconds", interval, 1, LONGEST)
        if not name.strip() or len(name) > 200:
            raise BadInput("a worker needs a name of at most 200 characters")
        if queue is not None:
            queue_name(queue)
        from rota.process.host import host_id

        with self._store.begin() as tx:
            tick.run(self._store, tx)
            if tx.one("orchestrator.stopping", host=host_id()):
                raise Refused("the orchestrator here is stopping: register once it has, or when it runs again")
            ownership.refuse_more(self._store, "worker.count_of_token", 1, ownership.MOST_WORKERS, "living workers")
            id = self._store.new_worker_id()
            _insert(tx, id, name, pid=pid, queue=queue, interval=interval, elsewhere=elsewhere)
            if self._store.access is not None:
                tx.execute("token.bind", worker=id, token=self._store.access.id)
        return self.get(id)

    @retry_conflicts
    def heartbeat(self, id: str, metrics: Mapping[str, object] | None = None) -> str:
        """Record a sign of life.

        Returns:
            What to do: `continue`, `stop` or `pause`.

        Raises:
            UnknownWorker: It is not registered, or was given up: it must register again.
        """
        with self._store.write() as tx:
            ownership.worker(self._store, id)
            _revive(tx, id, workers.DEAD)
            row = tx.one(
                "worker.heartbeat", id=id, now=tx.now, counted=1, metadata=encode(dict(metrics)) if metrics else None
            )
            if row is None:
                raise UnknownWorker(f"worker {id} is not registered (any more): register again")
            desired, queue = row
            tick.run(self._store, tx)
        if desired == workers.STOP:
            return workers.STOP
        return workers.CONTINUE if self._store.queues.is_open(queue) else workers.PAUSE

    @retry_conflicts
    def deregister(self, id: str) -> int:
        """Deregister a worker: what it holds goes back, its history stays. Return how many jobs were given back."""
        with self._store.write() as tx:
            ownership.worker(self._store, id)
            given_back = tick.deregister(self._store, tx, id, "deregistered")
            if given_back < 0 and tx.one("worker.get", id=id) is None:
                raise UnknownWorker(f"worker {id} is not registered")
        return max(0, given_back)

    @retry_conflicts
    def stop(self, id: str) -> Worker:
        """Ask a worker to finish and leave; the answer to its next heartbeat says so."""
        with self._store.write() as tx:
            if not tx.execute("worker.ask", id=id, desired=workers.STOP):
                raise NotFound(f"there is no living worker {id}")
            tx.changed("worker", workers.STOP, id)
            tx.draw("directive")
            tx.something_to_claim = True
        return self.get(id)

    def is_known(self, id: str) -> bool:
        return bool(self._store.database.execute("worker.get", {"id": id}))

    def get(self, id: str) -> Worker:
        rows = self._store.database.execute("worker.get", {"id": id})
        if not rows:
            raise NotFound(f"there is no worker {id}")
        return to_worker(rows[0])

    def held(self, id: str) -> list[Job]:
        """What a worker holds, oldest claim first."""
        return [to_job(row) for row in self._store.database.execute("claim.held_by", {"worker": id})]

    def certificate(self, id: str) -> Certificate | None:
        rows = self._store.database.execute("worker.certificate", {"worker": id})
        return Certificate(*rows[0]) if rows else None

    def place(self, id: str) -> tuple[str, str] | None:
        """Its host, and what that is called; None when it is forgotten."""
        rows = self._store.database.execute("worker.place", {"id": id})
        return (rows[0][0], rows[0][1]) if rows else None

    def deaths(
        self, limit: int = 20, slot: str | None = None, worker: str | None = None
    ) -> list[tuple[str, Certificate]]:
        """The workers that died last, newest first, of one slot or of any; or the one named."""
        rows = self._store.database.execute("worker.deaths", {"most": limit, "slot": slot, "worker": worker})
        return [(id, Certificate(*rest)) for id, *rest in rows]

    def shown(self, worker: Worker) -> str:
        """Its state as people see it."""
        return worker.shown(self._store.now(), not self._store.queues.is_open(worker.queue))

    def implicit_id(self) -> str:
        """Return the id of the worker that represents this user on this host."""
        return implicit_id(implicit_name())

    def list(self, gone_too: bool = False) -> list[Worker]:
        """The living workers; with `gone_too` the newest 1000 of all."""
        if gone_too:
            return [to_worker(row) for row in self._store.database.execute("worker.all", {"most": 1000})]
        return [to_worker(row) for row in self._store.database.execute("worker.live", {})]


def present(store: Store, tx: Transaction, id: str | None, person: str | None = None) -> str:
    """The worker that is about to claim: alive, or alive again. Nobody named: the caller's user and host."""
    if id is None:
        ownership.person(store)
        name = person or implicit_name()
        id, elsewhere = implicit_id(name), name.rpartition("@")[2] if person else None
        if tx.one("worker.lock", id=id) is None:
            _insert(tx, id, name, pid=None, queue=None, interval=None, elsewhere=elsewhere)
        _revive(tx, id, workers.STOPPED)
    ownership.worker(store, id, must_be_known=True)
    _revive(tx, id, workers.DEAD)
    row = tx.one("worker.lock", id=id)
    if row is not None and to_worker(row).orchestrator is not None:
        raise Conflict(f"worker {id} is watched by an orchestrator, which claims for it")
    if not tx.execute("worker.heartbeat", id=id, now=tx.now, counted=0, metadata=None):
        raise UnknownWorker(f"worker {id} is not registered (any more): register again")
    return id


def _revive(tx: Transaction, id: str, old: str) -> None:
    """Revive a worker that sends a heartbeat. It holds nothing: tokens fence its past. A supervised one stays dead."""
    row = tx.one("worker.lock", id=id)
    worker = to_worker(row) if row else None
    if worker is None or worker.status != old:
        return
    interval = worker.heartbeat_interval
    check_at = None if interval is None else tx.now + workers.MISSED_HEARTBEATS * interval
    if tx.execute("worker.revive", id=id, old=old, now=tx.now, check_at=check_at):
        tx.changed("worker", workers.HEARTBEAT, id, status=workers.IDLE)


def _insert(
    tx: Transaction,
    id: str,
    name: str,
    *,
    pid: int | None,
    queue: str | None,
    interval: Duration | None,
    elsewhere: str | None = None,
) -> None:
    from rota.core.version import __version__
    from rota.process.host import host_id, process_start

    hostname = elsewhere or os.uname().nodename
    tx.execute(
        "worker.insert",
        id=id,
        name=name,
        hostname=hostname,
        host=host_id() if elsewhere is None else ELSEWHERE,
        pid=pid,
        pid_start=process_start(pid) if pid and elsewhere is None else None,
        status=workers.IDLE,
        orchestrator=None,
        slot=None,
        queue=queue,
        version=__version__,
        now=tx.now,
        check_at=None if interval is None else tx.now + workers.MISSED_HEARTBEATS * interval,
        heartbeat_interval=interval,
        metadata=None,
    )
    tx.changed("worker", workers.REGISTER, id, name=name, hostname=hostname)
