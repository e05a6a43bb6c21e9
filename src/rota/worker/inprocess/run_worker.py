"""`run_worker`: a loop in the calling process that claims a job, calls the hooks and settles it."""

from __future__ import annotations

import inspect
import json
import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, assert_never

from rota.app import App
from rota.core.claim import Done, Failed, Released, Returned, Snoozed
from rota.core.errors import BadInput, NotFound, NothingReady, Refused, RotaError, Stale, StoreError, UnknownWorker
from rota.core.frames import assignment
from rota.core.record import Record
from rota.core.times import SECOND, format_duration
from rota.store.claims.exchange import PREVIOUS_RUNS
from rota.worker.context import Context, check_names
from rota.worker.handler import run
from rota.worker.inprocess import hooks
from rota.worker.inprocess.claim_session import ClaimSession, Heartbeats, HeldClaim
from rota.worker.tracing import Tracing

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping

    from rota.core.claim import Claim, Outcome
    from rota.core.frames.assignment import RunJob
    from rota.core.job import Job
    from rota.store.store import Store
    from rota.tracking import Tracker

    Execute = Callable[[Job, Any], Any]
    CaptureIO = Callable[[str, Job], Any] | Callable[[str], Any]

RETRY_AFTER, SHORTEST_WAIT = 0.5, 0.05
# Seconds that the last report to the tracking tables may take.
LAST_HEARTBEAT = 3.0


def run_worker(
    execute: Execute,
    *,
    capture_io: CaptureIO | None = None,
    context: Mapping[str, Any] | None = None,
    queue: str | None = "default",
    name: str = "run_worker",
    app: App | None = None,
    limit: int | None = None,
) -> int:
    """Run jobs in this process until asked to stop; SIGTERM and SIGINT let the current job end.

    Args:
        execute: A function or coroutine function, `execute(job, ctx)`, that runs one job.
        capture_io: A function, `capture_io(run_id, job)` or `capture_io(run_id)`, that names the files it writes.
        context: Values that every `ctx` has as attributes.
        queue: Whose jobs to run; None for those of all queues.
        name: The name of the worker.
        app: The application whose store has the jobs; by default `App()`.
        limit: End after this number of jobs.

    Returns:
        How many jobs were run.

    Raises:
        BadInput: A hook is not a function, or an argument is not valid.
    """
    hooks.check(execute, capture_io)
    if limit is not None and limit < 1:
        raise BadInput(f"limit must be at least 1, not {limit}: leave it out to work until asked to stop")
    check_names(context or {})
    app = app or App()
    with ExitStack() as stack:
        store, heartbeat_store = stack.enter_context(app.connect()), stack.enter_context(app.connect())
        session = ClaimSession(store, name, queue)
        stack.callback(session.close)
        stack.enter_context(_signals(session.stop))
        session.register(store)
        tracker = stack.enter_context(OutcomeTracker(app, session.url))
        loop = JobLoop(session, tracker, queue, execute, capture_io, context or {})
        stack.callback(loop.leave)
        every = min(app.settings.heartbeat_interval, app.settings.lease // 3) / SECOND
        with Heartbeats(session, heartbeat_store, every):
            return loop.run(limit)


class CurrentJob(Record):
    """A claimed job with what the hooks get."""

    held: HeldClaim
    job: Job
    run_job: RunJob
    ctx: Context


class JobLoop:
    """Claims and runs jobs, one after another."""

    def __init__(
        self,
        session: ClaimSession,
        tracker: OutcomeTracker,
        queue: str | None,
        execute: Execute,
        capture_io: CaptureIO | None,
        context: Mapping[str, Any],
    ) -> None:
        self._session = session
        self._tracker = tracker
        self._settings = tracker.app.settings
        self._queue = queue
        self._execute = execute
        self._capture_io = None if capture_io is None else hooks.with_job(capture_io)
        self._values = dict(context)
        self._current: CurrentJob | None = None
        self._failure: Failed | None = None
        self._coroutines: asyncio.Runner | None = None
        self._tracing = Tracing(self._settings)

    def run(self, limit: int | None) -> int:
        """Run jobs until asked to stop or `limit` is reached; return how many."""
        count = 0
        with self._session.store() as store:
            listener = store.database.listen()
        try:
            while not self._session.stopping and (limit is None or count < limit):
                claim = self._claim()
                if claim is None:
                    self._session.wait(listener, self._patience())
                elif self._run(claim):
                    count += 1
                else:
                    time.sleep(RETRY_AFTER)
        finally:
            listener.close()
        return count

    def leave(self) -> None:
        """Deregister the worker, which releases what it still holds."""
        if self._coroutines is not None:
            self._coroutines.close()
        self._tracing.flush()
        try:
            with self._session.store() as store:
                store.workers.deregister(self._session.worker_id)
            self._session.log("left")
        except UnknownWorker:
            pass
        except RotaError as problem:
            self._session.warn(f"could not deregister: {problem}")

    def _claim(self) -> Claim | None:
        """Claim the best ready job; None if there is none. Reads first, because a claim is a write transaction."""
        id = self._session.worker_id
        try:
            with self._session.store() as store:
                self._give_back(store, id)
                return store.claims.take(id, self._queue) if store.jobs.ready(self._queue, 1) else None
        except (NothingReady, Stale):
            pass
        except UnknownWorker:
            self._register_again(id)
        except StoreError as problem:
            self._session.warn(f"could not claim, and tries again: {problem}")
            time.sleep(RETRY_AFTER)
        return None

    def _give_back(self, store: Store, id: str) -> None:
        """Release claims of which this loop does not know: the answer was lost, or a handler left one."""
        for job in store.workers.held(id):
            store.claims.release(store.claims.held(job.id, id), "held by a worker that has nothing in hand")
            self._session.warn(f"gave job {job.id} back, which it held and did not run")

    def _register_again(self, unknown: str) -> None:
        try:
            with self._session.store() as store:
                self._session.register(store, unknown)
        except (Refused, StoreError) as problem:
            self._session.warn(f"could not register again, and tries again: {problem}")
            time.sleep(RETRY_AFTER)

    def _patience(self) -> float:
        """Return for how many seconds no job can become ready without a notification."""
        poll = self._settings.poll_interval
        try:
            with self._session.store() as store:
                due = store.next_due(self._queue)
        except StoreError:
            due = None
        return max(SHORTEST_WAIT, (poll if due is None else min(poll, due)) / SECOND)

    def _run(self, claim: Claim) -> bool:
        """Run a claimed job and settle its claim, whatever happens; return whether it was started."""
        began = time.monotonic()
        with self._session.store() as store:
            held = self._session.held = HeldClaim(self._session, claim, claim.claimed_at)
            try:
                self._session.on_advice(store.workers.heartbeat(claim.worker_id, self._session.metrics()))
                current = self._begin(held)
            except RotaError as problem:
                outcome: Outcome = Released(f"not started: {problem}")
                current = None
        if current is not None:
            outcome = self._outcome(current)
        held.is_over = True
        if self._settle(held, outcome):
            took = format_duration(round((time.monotonic() - began) * SECOND))
            self._session.completed += isinstance(outcome, Done)
            self._tracker.settled(None if current is None else current.job.source, outcome)
            self._session.log(f"job {claim.job_id} {_in_words(outcome)} ({took})", claim.run_id)
        self._session.held = None
        return current is not None

    def _begin(self, held: HeldClaim) -> CurrentJob:
        with self._session.store() as store:
            job = store.jobs.get(held.claim.job_id)
            runs = store.claims.runs(job.id)[-PREVIOUS_RUNS:]
            remaining = None if job.deadline is None else (job.deadline - store.now()) / SECOND
        deadline = None if remaining is None else time.monotonic() + remaining
        run_job = assignment.of_claim(job, held.claim, runs, deadline)
        return CurrentJob(held, job, run_job, Context(run_job, held, self._values))

    def _outcome(self, current: CurrentJob) -> Outcome:
        self._current = current
        with self._tracing.run(current.run_job, current.job.queue, self._session.worker_id) as traced:
            outcome = run(self._attempt, None)
            traced.outcome = outcome = self._failure or outcome
        self._failure = self._current = None
        return outcome

    def _attempt(self) -> Any:
        """Call both hooks for the current job; return its result. What they raise becomes the outcome."""
        assert self._current is not None
        held, job, ctx = self._current.held, self._current.job, self._current.ctx
        if self._capture_io is not None:
            self._capture(held, hooks.paths(self._awaited(self._capture_io(ctx.run_id, job))))
        answer = self._awaited(self._execute(job, ctx))
        self._failure = hooks.failure(answer)
        return None if self._failure else hooks.result(answer)

    def _awaited(self, answer: Any) -> Any:
        """Return the answer of a hook; a coroutine is run first."""
        return self._runner().run(answer) if inspect.iscoroutine(answer) else answer

    def _capture(self, held: HeldClaim, paths: tuple[str | None, str | None]) -> None:
        """Create the folders, so that the handler only has to open its files, and store the paths."""
        for folder in [os.path.dirname(path) for path in paths if path is not None]:
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            except OSError as problem:
                raise BadInput(f"capture_io names a file in {folder}, which is no folder: {problem.strerror}") from None
        if paths != (None, None):
            with self._session.store() as store:
                store.claims.capture(held.claim, *paths)

    def _runner(self) -> asyncio.Runner:
        """One event loop for all jobs: what a coroutine opened in one is usable in the next."""
        if self._coroutines is None:
            import asyncio

            self._coroutines = asyncio.Runner()
        return self._coroutines

    def _warn_if_dropped(self, store: Store, held: HeldClaim, outcome: Outcome) -> None:
        """Warn that a result is not kept because the job was settled before, such as by `rota done` in the handler."""
        if not isinstance(outcome, Done) or outcome.result is None:
            return
        try:
            kept = store.jobs.get(held.claim.job_id).result_json
        # A done job of a source is deleted, and its result with it.
        except NotFound:
            return
        if kept is None or json.loads(kept) != json.loads(outcome.result):
            text = f"job {held.claim.job_id} was done already, so what execute returned is not kept"
            self._session.warn(f"{text}: {outcome.result[:200]}", held.run_id)

    def _settle(self, held: HeldClaim, outcome: Outcome) -> bool:
        """Settle the claim, however long the store is away; return False if it was lost, or given up at a stop."""
        give_up_at: float | None = None
        while True:
            try:
                with self._session.store() as store:
                    if not store.claims.settle(held.claim, outcome):
                        self._warn_if_dropped(store, held, outcome)
                return True
            except (Stale, NotFound) as problem:
                self._session.warn(f"not settled: {problem}", held.run_id)
                return False
            # Such as text that is not Unicode. The next turn settles the failure.
            except BadInput as problem:
                outcome = Failed(f"its outcome cannot be kept: {problem}", again=False)
            except StoreError as problem:
                self._session.warn(f"could not settle, and tries again: {problem}", held.run_id)
                if self._session.stopping and give_up_at is None:
                    give_up_at = time.monotonic() + self._settings.shutdown_timeout / SECOND
                if give_up_at is not None and time.monotonic() >= give_up_at:
                    self._session.warn(f"leaves job {held.claim.job_id} unsettled, token {held.token}", held.run_id)
                    return False
                time.sleep(RETRY_AFTER)


class OutcomeTracker:
    """Counts settled outcomes in the tracking tables during a `with` block, if the settings name a database for it."""

    def __init__(self, app: App, database: str) -> None:
        self.app = app
        url = app.settings.replace(db=database).tracking_url
        self._tracker = None if url is None else _tracker(url, app.settings.heartbeat_interval)

    def settled(self, source: str | None, outcome: Outcome) -> None:
        """Count an outcome that the store has accepted. Released and snoozed jobs are neither successes nor errors."""
        tracker = self._tracker
        if tracker is None or not isinstance(outcome, Done | Failed):
            return
        error = outcome.error if isinstance(outcome, Failed) else None
        if error is None:
            tracker.success()
        else:
            tracker.error(error)
        declared = self.app.sources.get(source or "")
        if declared is not None and declared.vectorizer is not None:
            tracker.progress(declared.vectorizer, int(error is None), error)

    def __enter__(self) -> OutcomeTracker:
        if self._tracker is not None:
            self._tracker.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._tracker is not None:
            self._tracker.close(0.0 if self._tracker.state == "untracked" else LAST_HEARTBEAT)


def _tracker(url: str, every: int) -> Tracker:
    # Imported late: psycopg takes long, and most workers report to no tracking tables (decision 19).
    from rota.tracking import Tracker
    from rota.tracking.tracker import LONGEST, NAME

    return Tracker(url, NAME, min(every / SECOND, LONGEST))


def _in_words(outcome: Outcome) -> str:
    match outcome:
        case Done():
            return "done"
        case Failed(error):
            return f"failed: {error}"
        case Snoozed(delay):
            return f"snoozed for {format_duration(delay)}"
        case Released(note):
            return f"released: {note}"
        case Returned():
            return "released"
        case other:
            assert_never(other)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Stop on SIGTERM and SIGINT during the block; only the main thread can handle signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    worker = os.getpid()

    def on_signal(number: int, _frame: object) -> None:
        if os.getpid() == worker:
            stop()
        # A process that a handler forked ends as it would without this handler.
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
