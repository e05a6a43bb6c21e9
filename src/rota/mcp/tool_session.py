"""An MCP session as a worker: it is registered, renews the claims it holds, and ends with its client."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.core import worker as workers
from rota.core.errors import Conflict, Refused, RotaError, Stale, UnknownWorker
from rota.core.ids import printable
from rota.core.record import Record
from rota.core.times import SECOND
from rota.process.host import since_boot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.core.claim import Claim, Outcome
    from rota.core.job import Job
    from rota.core.times import Duration, Instant
    from rota.store.store import Store

RETRY_AFTER = 1.0


class SessionSettings(Record):
    """Settings of a session; `most` is how many jobs it may hold at a time."""

    name: str
    queue: str | None = None
    most: int = 1
    lease: Duration | None = None


class HeldClaim(Record):
    """A claim that this session holds; `lost` says why it no longer does."""

    claim: Claim
    renew_at: Instant
    progress: dict[str, object] | None = None
    lost: str | None = None


class Session:
    """A registered worker. Tools are called by several threads, which take turns with one connection."""

    def __init__(self, connect: Callable[[], Store], settings: SessionSettings) -> None:
        self._connect = connect
        self._settings = settings
        self._lock = threading.RLock()
        self._store = connect()
        self._held: dict[int, HeldClaim] = {}
        self._stopping = False
        self._over = threading.Event()
        self.worker_id = ""
        self._register(self._store)
        every = min(self._store.settings.heartbeat_interval, self._lease // 3)
        self._thread = threading.Thread(target=self._run_heartbeats, args=(every / SECOND / 2,), daemon=True)
        self._thread.start()

    @property
    def queue(self) -> str | None:
        """The queue that it is bound to; None for all."""
        return self._settings.queue

    def bound(self, queue: str | None) -> str | None:
        """Return the queue to use; refuse one that this session is not bound to."""
        if self.queue is not None and queue not in (None, self.queue):
            raise Refused(f"this session works for queue {self.queue} alone (`rota mcp --queue`), not for {queue}")
        return self.queue or queue

    def refuse_elsewhere(self, job: Job) -> Job:
        """Return the job; refuse one of a queue that this session is not bound to."""
        self.bound(job.queue)
        return job

    @property
    def _lease(self) -> Duration:
        return self._settings.lease or self._store.settings.lease

    @contextmanager
    def store(self) -> Iterator[Store]:
        with self._lock:
            yield self._store

    def claim(self, job_id: int | None = None, queue: str | None = None) -> Claim:
        """Claim a job, or the best one that is ready; refused when the session holds as many as it may."""
        with self._lock:
            valid = [id for id, held in self._held.items() if held.lost is None]
            if job_id in valid:
                raise Conflict(f"you hold job {job_id} already")
            if self._stopping:
                raise Refused("a person asked this worker to stop: finish or release what you hold, and claim no more")
            if len(valid) >= self._settings.most:
                held = ", ".join(map(str, valid))
                raise Refused(f"you hold job {held}: finish, fail or release it before you claim another")
            claims, queue = self._store.claims, self.bound(queue)
            if job_id is None:
                claim = claims.take(self.worker_id, queue, self._settings.lease)
            else:
                self.refuse_elsewhere(self._store.jobs.get(job_id))
                claim = claims.claim(job_id, self.worker_id, self._settings.lease)
            self._held[claim.job_id] = HeldClaim(claim, self._renew_at(self._store, claim))
            return claim

    def renew(self, job_id: int) -> Claim:
        """Renew a claim now; heartbeats do it as well."""
        with self._lock:
            held = self._mine(job_id)
            try:
                self._renew(self._store, held)
            except Stale as problem:
                self._lose(held, problem)
                raise
            return self._held[job_id].claim

    def progress(self, job_id: int, progress: dict[str, object]) -> None:
        """Report how far a held job is, at once."""
        with self._lock:
            self._held[job_id] = self._mine(job_id).replace(progress=progress)
            self._heartbeat(self._store)

    def settle(self, job_id: int, outcome: Outcome) -> None:
        """Settle a held job; the store decides whether the claim is still valid."""
        with self._lock:
            held = self._held.get(job_id)
            if held is None:
                raise self._not_mine(job_id)
            try:
                self._store.claims.settle(held.claim, outcome)
            except Stale as problem:
                del self._held[job_id]
                raise Stale(_lost_message(problem)) from None
            del self._held[job_id]

    def checkpoint(self, job_id: int, value: object) -> None:
        with self._lock:
            self._store.claims.checkpoint(self._mine(job_id).claim, value)

    def close(self) -> None:
        """Deregister, which releases what is held."""
        self._over.set()
        with self._lock:
            try:
                self._store.workers.deregister(self.worker_id)
            except RotaError as problem:
                _warn(f"could not deregister, so what is held comes back by itself: {problem}")

    def _mine(self, job_id: int) -> HeldClaim:
        held = self._held.get(job_id)
        if held is None:
            raise self._not_mine(job_id)
        if held.lost is not None:
            raise Stale(held.lost)
        return held

    def _not_mine(self, job_id: int) -> RotaError:
        ids = ", ".join(map(str, self._held)) or "nothing"
        return Conflict(f"you do not hold job {job_id} (you hold {ids}): claim it first")

    def _register(self, store: Store) -> None:
        self.worker_id = store.workers.register(self._settings.name, pid=os.getpid(), queue=self.queue).id

    def _run_heartbeats(self, every: float) -> None:
        """Send heartbeats and renew claims until the session is closed; no error ends this thread."""
        pause = every
        store: Store | None = None
        while not self._over.wait(pause):
            try:
                store = store or self._connect()
                self._tick(store)
                pause = every
            except Exception as problem:
                _warn(f"could not beat, and tries again: {problem}")
                pause = min(every, RETRY_AFTER)

    def _tick(self, store: Store) -> None:
        with self._lock:
            if self._over.is_set():
                return
            self._heartbeat(store)
            for held in list(self._held.values()):
                if held.lost is None:
                    self._check(store, held)

    def _heartbeat(self, store: Store) -> None:
        """Send a heartbeat with the progress of a held job; the answer may be to stop."""
        metrics: dict[str, object] = {}
        for job_id, held in self._held.items():
            if held.lost is None:
                metrics = {"busy": job_id, **({"progress": held.progress} if held.progress else {})}
        try:
            self._stopping = store.workers.heartbeat(self.worker_id, metrics) == workers.STOP
        except UnknownWorker:
            self._register(store)

    def _check(self, store: Store, held: HeldClaim) -> None:
        """Renew the claim once a third of its lease is over; before that, check that it is still held."""
        try:
            if since_boot() >= held.renew_at:
                self._renew(store, held)
            else:
                store.claims.held(held.claim.job_id, token=held.claim.token)
        except Stale as problem:
            self._lose(held, problem)

    def _renew(self, store: Store, held: HeldClaim) -> None:
        claim = store.claims.renew(held.claim)
        self._held[claim.job_id] = held.replace(claim=claim, renew_at=self._renew_at(store, claim))

    def _renew_at(self, store: Store, claim: Claim) -> Instant:
        """Return when to renew, on this machine's clock, which may differ from the store's."""
        remaining = self._lease if claim.lease_expires_at is None else claim.lease_expires_at - store.now()
        return since_boot() + remaining // 3

    def _lose(self, held: HeldClaim, problem: Stale) -> None:
        self._held[held.claim.job_id] = held.replace(lost=_lost_message(problem))


def _lost_message(problem: Stale) -> str:
    return f"your claim is lost, {problem}: stop working on it, what you did does not count; claim another"


def _warn(text: str) -> None:
    print(f"rota: {printable(text)}", file=sys.stderr, flush=True)
