"""`run_worker`: claim a job, call the hooks, settle it, and again, in the calling process."""

from __future__ import annotations

import inspect
import json
import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from rota.app import App
from rota.core.claim import Done, Failed, Released, Snoozed
from rota.core.errors import BadInput, NotFound, NothingReady, Refused, RotaError, Stale, StoreError, UnknownWorker
from rota.core.record import Record
from rota.core.times import SECOND, format_duration
from rota.store.claims.exchange import RUNS_TOLD
from rota.worker import claimed_job
from rota.worker.context import Context, check_names
from rota.worker.handler import run
from rota.worker.inprocess import answers
from rota.worker.inprocess.claim_session import Held, Life
from rota.worker.inprocess.heartbeats import Beats
from rota.worker.inprocess.tracked import Tracked
from rota.worker.tracing import Tracing

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping

    from rota.core.claim import Claim, Outcome
    from rota.core.job import Job
    from rota.store.store import Store
    from rota.worker.job_state import Handed

    Execute = Callable[[Job, Any], Any]
    CaptureIO = Callable[[str, Job], Any] | Callable[[str], Any]

TRY_AGAIN, SHORTEST_WAIT = 0.5, 0.05


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
    """Do the jobs of a queue (None: of any) here, until asked to stop or `limit` of them are over; how many were.

    `execute(job, ctx)`, a function or a coroutine function, does one; `capture_io(run_id, job)`, or of the run's id
    alone, names the files that it writes. SIGTERM and SIGINT let the job in hand end.
    """
    _check_hooks(execute, capture_io)
    if limit is not None and limit < 1:
        raise BadInput(f"limit must be at least 1, not {limit}: leave it out to work until asked to stop")
    check_names(context or {})
    app = app or App()
    with ExitStack() as stack:
        mine, beating = stack.enter_context(app.connect()), stack.enter_context(app.connect())
        life = Life(mine, name, queue)
        stack.callback(life.close)
        stack.enter_context(_signals(life.stop))
        life.register(mine)
        tracked = stack.enter_context(Tracked(app, life.url))
        work = Work(life, tracked, queue, execute, capture_io, context or {})
        stack.callback(work.leave)
        every = min(app.settings.heartbeat_interval, app.settings.lease // 3) / SECOND
        with Beats(life, beating, every):
            return work.until_stopped(limit)


class InHand(Record):
    """The job that the hooks get, as it was handed out, and what they may ask."""

    held: Held
    job: Job
    handed: Handed
    ctx: Context


class Work:
    """The loop of one worker life."""

    def __init__(
        self,
        life: Life,
        tracked: Tracked,
        queue: str | None,
        execute: Execute,
        capture_io: CaptureIO | None,
        context: Mapping[str, Any],
    ) -> None:
        self._life = life
        self._tracked = tracked
        self._settings = tracked.app.settings
        self._queue = queue
        self._execute = execute
        self._capture_io = None if capture_io is None else _of_both(capture_io)
        self._values = dict(context)
        self._in_hand: InHand | None = None
        self._failure: Failed | None = None
        self._coroutines: asyncio.Runner | None = None
        self._tracing = Tracing(self._settings)

    def until_stopped(self, limit: int | None) -> int:
        """Claim and run, one job after another; how many."""
        count = 0
        with self._life.store() as store:
            listener = store.database.listen()
        try:
            while not self._life.stopping and (limit is None or count < limit):
                claim = self._claim()
                if claim is None:
                    self._life.wait(listener, self._patience())
                elif self._run(claim):
                    count += 1
                else:
                    time.sleep(TRY_AGAIN)
        finally:
            listener.close()
        return count

    def leave(self) -> None:
        """Deregister; whatever is still held goes back."""
        if self._coroutines is not None:
            self._coroutines.close()
        self._tracing.flush()
        try:
            with self._life.store() as store:
                store.workers.deregister(self._life.worker_id)
            self._life.say("left")
        except UnknownWorker:
            pass
        except RotaError as problem:
            self._life.warn(f"could not deregister: {problem}")

    def _claim(self) -> Claim | None:
        """The best ready job, taken; None when there is none. Looked for before anything is written."""
        id = self._life.worker_id
        try:
            with self._life.store() as store:
                self._give_back(store, id)
                return store.claims.take(id, self._queue) if store.jobs.ready(self._queue, 1) else None
        except (NothingReady, Stale):
            pass
        except UnknownWorker:
            self._register_again(id)
        except StoreError as problem:
            self._life.warn(f"could not claim, and tries again: {problem}")
            time.sleep(TRY_AGAIN)
        return None

    def _give_back(self, store: Store, id: str) -> None:
        """Nothing is held that nobody knows of: such as a claim whose answer was lost, or one that a handler forgot."""
        for job in store.workers.held(id):
            store.claims.release(store.claims.held(job.id, id), "held by a worker that has nothing in hand")
            self._life.warn(f"gave job {job.id} back, which it held and did not run")

    def _register_again(self, unknown: str) -> None:
        try:
            with self._life.store() as store:
                self._life.register(store, unknown)
        except (Refused, StoreError) as problem:
            self._life.warn(f"could not register again, and tries again: {problem}")
            time.sleep(TRY_AGAIN)

    def _patience(self) -> float:
        """For how many seconds nothing can become ready without a ring of the bell."""
        poll = self._settings.poll_interval
        try:
            with self._life.store() as store:
                due = store.next_due(self._queue)
        except StoreError:
            due = None
        return max(SHORTEST_WAIT, (poll if due is None else min(poll, due)) / SECOND)

    def _run(self, claim: Claim) -> bool:
        """Run one claimed job to its end; false when it could not be begun. Whatever happens, its claim is settled."""
        began = time.monotonic()
        with self._life.store() as store:
            held = self._life.held = Held(self._life, claim, claim.claimed_at)
            try:
                self._life.heed(store.workers.heartbeat(claim.worker_id, self._life.metrics()))
                in_hand = self._begin(held)
            except RotaError as problem:
                outcome: Outcome = Released(f"not started: {problem}")
                in_hand = None
        if in_hand is not None:
            outcome = self._outcome(in_hand)
        held.is_over = True
        if self._settle(held, outcome):
            took = format_duration(round((time.monotonic() - began) * SECOND))
            self._life.completed += isinstance(outcome, Done)
            self._tracked.settled(None if in_hand is None else in_hand.job.source, outcome)
            self._life.say(f"job {claim.job_id} {_told(outcome)} ({took})", claim.run_id)
        self._life.held = None
        return in_hand is not None

    def _begin(self, held: Held) -> InHand:
        with self._life.store() as store:
            job = store.jobs.get(held.claim.job_id)
            runs = store.claims.runs(job.id)[-RUNS_TOLD:]
            left = None if job.deadline is None else (job.deadline - store.now()) / SECOND
        deadline = None if left is None else time.monotonic() + left
        handed = claimed_job.handed(job, held.claim, runs, deadline)
        return InHand(held, job, handed, Context(handed, held, self._values))

    def _outcome(self, in_hand: InHand) -> Outcome:
        self._in_hand = in_hand
        with self._tracing.run(in_hand.handed, in_hand.job.queue, self._life.worker_id) as traced:
            outcome = run(self._attempt, None)
            traced.outcome = outcome = self._failure or outcome
        self._failure = self._in_hand = None
        return outcome

    def _attempt(self) -> Any:
        """Both hooks for the job in hand; the job's result. What they raise is an outcome too."""
        assert self._in_hand is not None
        held, job, ctx = self._in_hand.held, self._in_hand.job, self._in_hand.ctx
        if self._capture_io is not None:
            self._capture(held, answers.paths(self._ended(self._capture_io(ctx.run_id, job))))
        answer = self._ended(self._execute(job, ctx))
        self._failure = answers.failure(answer)
        return None if self._failure else answers.result(answer)

    def _ended(self, answer: Any) -> Any:
        """What a hook answered; a coroutine is run first."""
        return self._runner().run(answer) if inspect.iscoroutine(answer) else answer

    def _capture(self, held: Held, paths: tuple[str | None, str | None]) -> None:
        """Make the folders, so that the handler only has to open its files, and let others know the paths."""
        for folder in [os.path.dirname(path) for path in paths if path is not None]:
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            except OSError as problem:
                raise BadInput(f"capture_io names a file in {folder}, which is no folder: {problem.strerror}") from None
        if paths != (None, None):
            with self._life.store() as store:
                store.claims.capture(held.claim, *paths)

    def _runner(self) -> asyncio.Runner:
        """One event loop for all jobs: what a coroutine opened in one serves in the next."""
        if self._coroutines is None:
            import asyncio

            self._coroutines = asyncio.Runner()
        return self._coroutines

    def _tell_dropped(self, store: Store, held: Held, outcome: Outcome) -> None:
        """Say that a result is not kept: the job was settled with this token before, such as by a command in it."""
        if not isinstance(outcome, Done) or outcome.result is None:
            return
        try:
            kept = store.jobs.get(held.claim.job_id).result_json
        except NotFound:  # it came from a source and is gone since it is done; nobody keeps its result
            return
        if kept is None or json.loads(kept) != json.loads(outcome.result):
            text = f"job {held.claim.job_id} was done already, so what execute returned is not kept"
            self._life.warn(f"{text}: {outcome.result[:200]}", held.run_id)

    def _settle(self, held: Held, outcome: Outcome) -> bool:
        """Report it, however long the store is away; false when the claim was no longer ours, or at a stop in vain."""
        give_up_at: float | None = None
        while True:
            try:
                with self._life.store() as store:
                    if not store.claims.settle(held.claim, outcome):
                        self._tell_dropped(store, held, outcome)
                return True
            except (Stale, NotFound) as problem:
                self._life.warn(f"not settled: {problem}", held.run_id)
                return False
            except BadInput as problem:  # such as text that is not Unicode
                outcome = Failed(f"its outcome cannot be kept: {problem}", again=False)
            except StoreError as problem:
                self._life.warn(f"could not settle, and tries again: {problem}", held.run_id)
                if self._life.stopping and give_up_at is None:
                    give_up_at = time.monotonic() + self._settings.shutdown_timeout / SECOND
                if give_up_at is not None and time.monotonic() >= give_up_at:
                    self._life.warn(f"leaves job {held.claim.job_id} unsettled, token {held.token}", held.run_id)
                    return False
                time.sleep(TRY_AGAIN)


def _of_both(capture_io: Callable[..., Any]) -> Callable[[str, Job], Any]:
    """The hook as a function of the run's id and the job, though it may take the run's id alone."""
    try:
        signature = inspect.signature(capture_io)
    except ValueError:  # some that are written in C do not tell
        return capture_io
    for count in (2, 1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return capture_io if count == 2 else lambda run_id, job: capture_io(run_id)
    raise BadInput(f"capture_io takes (run_id, job) or (run_id), not {signature}")


def _check_hooks(execute: object, capture_io: object) -> None:
    if not callable(execute):
        raise BadInput(f"execute must be a function, execute(job, ctx), not {execute!r:.60}")
    if capture_io is not None and not callable(capture_io):
        raise BadInput(f"capture_io must be a function, capture_io(run_id, job), not {capture_io!r:.60}")
    if callable(capture_io):
        _of_both(capture_io)


def _told(outcome: Outcome) -> str:
    match outcome:
        case Done():
            return "done"
        case Failed(error):
            return f"failed: {error}"
        case Snoozed(delay):
            return f"snoozed for {format_duration(delay)}"
        case Released(note):
            return f"released: {note}"
        case _:
            return "released"


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT mean stop while this lasts; only the main thread can hear them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    worker = os.getpid()

    def heard(number: int, _frame: object) -> None:
        if os.getpid() == worker:
            stop()
        else:  # a process that a handler forked is not the worker: it ends as any would
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
