"""The supervisor of a crew: keeps slots filled, dispatches jobs, acts on deaths. The decisions are made in `core`."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, assert_never

from rota.core import health, slot
from rota.core import orchestrator as orchestrators
from rota.core.death import LOST
from rota.core.errors import RotaError, Stale
from rota.core.frames import codec as frames
from rota.core.ids import run_id, worker_id
from rota.core.slot import GiveUp, Restart
from rota.core.times import MILLISECOND, SECOND, format_duration
from rota.orchestrator import store_thread as urgency
from rota.orchestrator.directives import Directives
from rota.orchestrator.dispatch import STUCK, Dispatch, idle
from rota.orchestrator.external_workers import ExternalWorkers
from rota.orchestrator.health_checks import LEAVES_WITHIN, HealthChecks
from rota.orchestrator.lease import Lease
from rota.orchestrator.maintenance import Maintenance, now
from rota.orchestrator.pool_backoff import PoolBackoff
from rota.orchestrator.shutdown import Shutdown
from rota.orchestrator.slot import Startup, SupervisedSlot
from rota.orchestrator.tracking import Tracked
from rota.orchestrator.worker_messages import WorkerMessages
from rota.orchestrator.worker_process import WorkerProcess
from rota.process import leaks
from rota.process.host import host_id, since_boot
from rota.process.watch import is_alive_or_all_gone
from rota.settings import words_of
from rota.store.claims.exchange import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rota.core.frames.assignment import Assignment
    from rota.core.times import Duration, Instant
    from rota.orchestrator.event_loop import EventLoop
    from rota.orchestrator.store_thread import StoreThread
    from rota.process.log import Say
    from rota.settings import Settings
    from rota.store.claims.exchange import Exchange, Settled
    from rota.store.store import Store
    from rota.store.workers.crews import PollResult, Process
    from rota.store.workers.slots import Slot

    Written = tuple[Restart | GiveUp, dict[int, tuple[str, str | None]]]

TOLD_BEFORE_ENDED = SECOND
HELPER_LOOK = 10 * MILLISECOND
SPARE_IDS, WAIT_FOR_IDS = 16, 100 * MILLISECOND


class Supervisor:
    """One orchestrator's slots and workers. `startup` is called once, with None or why no worker is up."""

    def __init__(
        self,
        loop: EventLoop,
        store_thread: StoreThread,
        settings: Settings,
        environment: Mapping[str, str],
        say: Say,
        startup: Callable[[str | None], None] = lambda _: None,
        tracked: Tracked | None = None,
    ) -> None:
        self._loop = loop
        self._store_thread = store_thread
        self._settings = settings
        self._environment = environment
        self._programs = {queue: words_of(queue, text) for queue, text in settings.programs}
        self._say = say
        self._tracked = tracked or Tracked()
        self._places: dict[str, SupervisedSlot] = {}
        self._startup = Startup(self._places, startup)
        self._lease = Lease(store_thread, self._children, say, self._given_up)
        self._maintenance = Maintenance(store_thread, settings, say, self._on_poll)
        pool_backoff = PoolBackoff(self._places, say)
        self._dispatch = Dispatch(store_thread, self._deliver, self._given_up, self._maintenance.wake, pool_backoff)
        self._directives = Directives(self._places, self._fill_if_open, self._end, self._drain, self._acknowledge)
        self._worker_messages = WorkerMessages(
            self._dispatch, self._directives, self._maintenance, self._tracked, say, self._is_up, self._end
        )
        self._health_checks = HealthChecks(self._places, settings, self._maintenance, say, self._end, self._fill)
        self._external_workers = ExternalWorkers(
            loop, store_thread, settings, say, self._orphan_gone, self._dispatch.wake
        )
        self._id = 0
        self._worker_ids: list[str] | None = None  # made by an API and not used; beside the database we make our own
        self._crew = ""
        self._end_lost_at: Instant | None = None
        self._stopping: Shutdown | None = None
        self._is_leaving = False
        self.gone = False
        self.exit_code = 0

    # beginning and end

    def begin(self, crew: str, pools: Mapping[str, int] | None) -> None:
        """Join the store, take over from whoever was killed here, take the crew's slots and fill them.

        `pools` None: the slots as they are, when a crew that was given up starts over (decision 12).
        """
        self._crew = crew

        def join(store: Store) -> tuple[int, Instant, list[Process], list[Slot], Any, list[str] | None]:
            began = since_boot()
            id = store.orchestrators.join(crew)
            orphans = store.orchestrators.take_over(id, crew, is_alive_or_all_gone)
            if pools is not None:
                store.slots.take(crew, host_id(), pools)
            slots = [each for each in store.slots.of_crew(crew, host_id()) if each.wanted]
            listener = store.database.listen(behind_lock=True) if pools is not None else None
            ids = None if store.link is None else store.orchestrators.worker_ids(id, SPARE_IDS + len(slots))
            return id, began, orphans, slots, listener, ids

        self._store_thread.ask(urgency.DEATH, join, self._joined)

    def _joined(
        self, answer: tuple[int, Instant, list[Process], list[Slot], Any, list[str] | None] | RotaError
    ) -> None:
        if isinstance(answer, RotaError):
            self._say(str(answer))
            self._startup.bad(str(answer))
            self.exit_code, self.gone = 1, True
            return
        self._id, began, orphans, slots, listener, self._worker_ids = answer
        self._lease.begin(self._id, began, now())
        self._dispatch.begin(self._id)
        self._maintenance.begin(self._id)
        if listener is not None:
            self._loop.watch(listener.fileno(), lambda: self._wake(listener))
        by_slot = {orphan.slot: orphan for orphan in orphans}
        for each in slots:
            # A new copy, also when the crew begins anew: no worker is left, and what it said of the last one is over.
            place = self._places[each.name] = SupervisedSlot(each.name, each.queue)
            self._take_up(place, each, by_slot.get(each.name))
        self._external_workers.take_over(orphans)
        self._directives.number = -1
        if not any(place.takes_jobs for place in self._places.values()):
            self._is_running()

    def _take_up(self, place: SupervisedSlot, known: Slot, orphan: Process | None) -> None:
        """Fill a slot, unless it failed, or an orphan of a killed orchestrator still works there."""
        if orphan is not None:
            place.move(slot.ADOPT, slot.UP)
            place.orphan = orphan.worker_id
            self._say(f"works on alone as process {orphan.pid}: it is let finish", place.name, orphan.worker_id)
        elif known.history.failed_at is not None:
            place.move(slot.LOAD, slot.FAILED)
            self._say(f"failed: {known.history.failure_reason}; `rota reset {place.name}` starts it", place.name)
            if place.takes_jobs:
                self._startup.bad(f"{place.name} has failed: {known.history.failure_reason}")
        elif self._stopping is None:
            self._fill(place)

    def stop(self) -> None:
        """Finish running jobs, then leave; on a second call, leave now."""
        if self._stopping is not None:
            self._stopping.hurry(now())
            return
        self._begin_stop(self._settings.shutdown_timeout)
        self._say("stopping: what is in hand is finished first; once more means now")

    def _drain(self) -> None:
        if self._stopping is None:
            self._begin_stop(None)
            self._say("draining: what is in hand is finished, however long it takes")

    def _begin_stop(self, patience: Duration | None) -> None:
        self._stopping = Shutdown(now(), patience)
        self._lease.move(orchestrators.STOP, orchestrators.STOPPING)
        for place in self._places.values():
            place.start_at = None
            if place.child is not None:
                place.move(slot.STOP, slot.STOPPING)
                place.child.ask_to_stop()

    # time

    def tick(self) -> float:
        """Do what is due; return when to come again, on the monotonic clock."""
        at = self._loop.woke_at
        self._health_checks.go(at, self._may_fill)
        self._lease.tick(at, lambda child, why: self._end(child, LOST, why))
        if self._id:
            self._dispatch.turn(idle(self._places.values(), at) if self._is_open else [], at)
        looks_after = self._end_lost_at is None and not self._is_leaving
        if looks_after:
            self._maintenance.tick(at, self._directives.number)
        if self._stopping is not None:
            self._step_stop(self._stopping, at)
        elif self._end_lost_at is not None:
            self._step_anew(at)
        dues = [self._health_checks.due, self._lease.due]
        if self._id:
            dues.append(self._dispatch.due)
        if looks_after:
            dues.append(self._maintenance.due)
        return min(dues) / SECOND

    @property
    def _is_open(self) -> bool:
        """Whether it may start work: not while it stops, or was given up and has not joined again."""
        return self._id != 0 and self._stopping is None and self._end_lost_at is None

    def _may_fill(self, place: SupervisedSlot) -> bool:
        """Whether a slot whose wait is over may have its worker now."""
        return self._is_open and not self._directives.is_paused(place.queue)

    def stalled(self, seconds: float) -> None:
        """Move every deadline by the time for which this process itself was stopped (decision 12)."""
        by = round(seconds * SECOND)
        self._say(f"stood still for {format_duration(by)}: deadlines are moved by that")
        for place in self._places.values():
            if place.start_at is not None:
                place.start_at += by
            if place.child is not None:
                place.child.stalled(by)
        if self._stopping is not None:
            self._stopping.stalled(by)

    def _end(self, child: WorkerProcess, reason: str, text: str) -> None:
        if child.ending is None:
            self._say(f"killing it: {text}", *child.names)
            child.ending = reason
            child.signal(signal.SIGKILL)

    def _step_stop(self, stopping: Shutdown, at: Instant) -> None:
        """Wait for the last worker and the last report, signalling harder with each step; then leave the store."""
        children = self._children()
        if children or self._external_workers.orphans:
            number = stopping.due(at)
            if number is not None:
                for child in children:
                    child.cut_short(number)
                self._external_workers.end_orphans(number)
        elif stopping.waits_for_helpers(at) and self._external_workers.has_helpers:
            self._health_checks.not_later(at + HELPER_LOOK)
        elif stopping.is_over(at):
            tokens = ", ".join(map(run_id, self._dispatch.unsettled)) or "none"
            self._say(f"the store did not answer: the lease will lapse; unsettled: {tokens}")
            self.exit_code, self.gone = 1, True
        elif self._id and self._dispatch.is_settled and not self._is_leaving:
            self._is_leaving = True
            leaks.end(())
            self._lease.end()
            id = self._id
            self._store_thread.ask(urgency.END, lambda store: store.orchestrators.leave(id), self._left)

    def _left(self, answer: RotaError | None) -> None:
        if isinstance(answer, RotaError):
            self._say(str(answer))
            self.exit_code = 1
        self.gone = True

    # being given up

    def _given_up(self, problem: RotaError) -> None:
        """Start over after others counted this orchestrator as lost; stop after any other refusal."""
        if self._stopping is not None or self._end_lost_at is not None:
            return
        self._say(str(problem))
        if not isinstance(problem, Stale):
            self.exit_code = 1
            self.stop()
            return
        self._say("what was in hand runs elsewhere by now: the workers are told, ended, and the crew begins anew")
        self._lease.end()
        self._end_lost_at = now() + TOLD_BEFORE_ENDED
        for child in self._children():
            child.lost = True
            child.send(frames.LOST, {})

    def _step_anew(self, at: Instant) -> None:
        children = self._children()
        if self._end_lost_at is not None and at >= self._end_lost_at:
            for child in children:
                self._end(child, LOST, "its claims were given to others")
            if not children:
                self._end_lost_at, self._id = None, 0
                self.begin(self._crew, None)

    # workers

    def _children(self) -> list[WorkerProcess]:
        return [place.child for place in self._places.values() if place.child is not None]

    def _fill_if_open(self, place: SupervisedSlot) -> None:
        """Start the worker of a wanted slot, unless this crew accepts no more work."""
        if self._is_open:
            self._fill(place)

    def _fill(self, place: SupervisedSlot) -> None:
        """Start a worker, then register it; it gets no job until it is ready."""
        place.start_at = None
        ours = self._worker_ids
        if ours is not None and not ours:
            place.move(slot.REFUSE, slot.BACKOFF)
            place.start_at = now() + WAIT_FOR_IDS
            self._health_checks.not_later(place.start_at)
            self._ask_for_ids(SPARE_IDS)
            return
        program = self._programs.get(place.queue, ())
        try:
            id = worker_id(os.urandom(8)) if ours is None else ours.pop()
            child = WorkerProcess(place.name, place.queue, id, self._environment, now(), program)
        except OSError as problem:
            self._say(f"could not be started: {problem.strerror}; trying again in 1s", place.name)
            place.move(slot.REFUSE, slot.BACKOFF)
            place.start_at = now() + SECOND
            if program:
                self._startup.bad(f"{program[0]} could not be started: {problem.strerror}")
            return
        sys.audit("rota.crew.started")
        place.move(slot.FILL, slot.STARTING)
        place.child, place.shown = child, health.PENDING
        self._loop.watch(child.pidfd, lambda: self._died(place, child))
        self._loop.watch(child.pipe.fileno(), lambda: self._on_readable(place, child), child.flush)
        self._loop.watch(child.errors.fileno(), lambda: self._on_stderr(child))
        child.on_backlog = lambda more: self._loop.want_write(child.pipe.fileno(), more)
        self._say(f"started, pid {child.pid}", *child.names)
        number, process = self._id, child.process

        def registered(worker: str | RotaError) -> None:
            if isinstance(worker, RotaError):
                self._end(child, LOST, str(worker))

        # As urgent as a death, so that it cannot be written down after its own.
        self._store_thread.ask(
            urgency.DEATH,
            lambda store: store.orchestrators.register_worker(number, place.name, place.queue, process),
            registered,
        )
        if ours is not None:
            self._ask_for_ids(1)

    def _ask_for_ids(self, count: int) -> None:
        """Ask the API for ids of the next workers, which may have to be started while it is away (decision 21)."""
        number = self._id

        def made(ids: list[str] | RotaError) -> None:
            if self._worker_ids is not None and number == self._id and not isinstance(ids, RotaError):
                self._worker_ids += ids

        self._store_thread.ask(urgency.DEATH, lambda store: store.orchestrators.worker_ids(number, count), made)

    def _on_readable(self, place: SupervisedSlot, child: WorkerProcess) -> None:
        found, closed = child.read()
        if child.garbage > 2 * child.reported_garbage:  # as often as it doubles: few lines, whatever comes
            child.reported_garbage = child.garbage
            self._say(f"wrote what is no frame, ignored so far: {child.garbage}", *child.names)
        for frame in found:
            self._worker_messages.take(place, child, frame)
        if closed:
            self._loop.forget_all(child.pipe.fileno())
            child.closed_at = now()
            self._health_checks.not_later(child.closed_at + LEAVES_WITHIN)

    def _on_stderr(self, child: WorkerProcess) -> None:
        data = child.read_errors()
        for line in data.decode(errors="replace").splitlines():
            self._say(line, *child.names)
        if not data:
            self._loop.forget_all(child.errors.fileno())
            child.errors_closed = True

    def _is_up(self, place: SupervisedSlot, child: WorkerProcess) -> None:
        place.move(slot.HEALTHY, slot.UP)
        place.shown = health.HEALTHY
        self._dispatch.wake()
        name, worker, concurrency, kinds = place.name, child.worker_id, child.concurrency, child.kinds
        self._store_thread.submit(
            urgency.WORK, lambda store: store.orchestrators.came_up(worker, name, concurrency, kinds)
        )
        self._say("is up", *child.names)
        if not place.takes_jobs:
            return
        self._tracked.came(worker)
        self._is_running()

    def _is_running(self) -> None:
        """Report that the crew runs: a worker is up, or there is none to wait for."""
        if self._lease.status == orchestrators.STARTING:
            self._lease.move(orchestrators.UP, orchestrators.RUNNING)
        self._startup.good()

    def _died(self, place: SupervisedSlot, child: WorkerProcess) -> None:
        """Reap a worker, read its last frames, end its session, then record its death and release what it held."""
        ended, usage = child.reap()
        sys.audit("rota.crew.reaped")
        for frame in child.last_frames():
            self._worker_messages.take(place, child, frame)
        if not child.errors_closed:
            self._on_stderr(child)
        self._loop.forget_all(child.pidfd, child.pipe.fileno(), child.errors.fileno())
        child.signal(signal.SIGKILL)
        place.child = None
        leaks.end({each.pid for each in self._children()}, child.worker_id)
        death, held = child.death(ended, usage), {each.token for each in child.held}
        last = Report(self._dispatch.take(child.worker_id), checkpoints=self._dispatch.take_checkpoints(held))
        tokens, crowded = self._tracked.dying(child), len(child.running) > 1
        child.close()
        self._maintenance.forget(child)
        why = f" ({death.reason})" if death.reason != ended.reason else ""
        self._say(f"left: {ended.text}" if death.is_peaceful else f"{ended.text}{why}", *child.names)
        self._directives.returned(child.worker_id)
        if death.is_peaceful:
            place.move(slot.STOP, slot.STOPPING)
        else:
            place.move(slot.DIE, slot.BACKOFF)
        if not place.wanted:
            del self._places[place.name]
        holdings, with_it = self._dispatch.holdings, held | {token for _, token, _ in last.outcomes}
        self._dispatch.death_pending(child.worker_id, with_it)

        def write_down(store: Store) -> Written:
            decision = store.orchestrators.record_death(death, last, self._settings.restarts)
            # Only after the commit: a resynchronising exchange would give these claims back without an attempt spent.
            holdings.drop(with_it)
            return decision, store.orchestrators.ends(tokens)

        def written(answer: Written | RotaError) -> None:
            self._dispatch.death_recorded(child.worker_id)
            decision, ends = (answer, {}) if isinstance(answer, RotaError) else answer
            self._tracked.left(child.worker_id, ends, crowded)
            self._after_death(place, decision, death.stderr_tail or ended.text)

        self._store_thread.ask(urgency.DEATH, write_down, written)

    def _after_death(self, place: SupervisedSlot, decision: Restart | GiveUp | RotaError, last_words: str) -> None:
        """Act on what the store decided when it recorded the death: start another worker in this slot, or give up."""
        self._dispatch.wake()
        if isinstance(decision, RotaError):
            self._given_up(decision)
            return
        if place.name not in self._places or place.child is not None:
            return
        match decision:
            case GiveUp(reason):
                place.move(slot.GIVE_UP, slot.FAILED)
                self._say(f"failed: {reason}; `rota reset {place.name}` starts it again", place.name)
            case Restart(after):
                place.move(slot.RESTART, slot.BACKOFF if after and self._stopping is None else slot.EMPTY)
                if self._stopping is None:
                    place.start_at = now() + after
                    self._health_checks.not_later(place.start_at)
                    if after:
                        self._say(f"starts again in {format_duration(after)}", place.name)
            case other:
                assert_never(other)
        if place.takes_jobs:
            self._startup.bad(last_words)

    def _orphan_gone(self, process: Process) -> None:
        """Fill the slot of an orphan that has ended."""
        place = self._places.get(process.slot or "")
        if place is not None and place.orphan == process.worker_id:
            place.move(slot.GONE, slot.EMPTY)
            place.orphan = None
            if not place.wanted:
                del self._places[place.name]
            elif self._is_open:
                self._fill(place)

    # work

    def _deliver(self, answer: Exchange, brought: Sequence[tuple[str, Settled]]) -> None:
        """Hand claims to their workers; those of one that died meanwhile go back with its death (decision 9)."""
        settled = {worker: token for worker, (_, token, _) in brought}
        self._tracked.settled((token for _, (_, token, _) in brought), answer.refused)
        for token in answer.refused:
            self._say(
                "its outcome was refused: the claim was taken, called off or settled by someone else", run=run_id(token)
            )
        by_worker: dict[str, list[Assignment]] = {}
        for claim in answer.claims:
            by_worker.setdefault(claim.worker_id, []).append(claim)
        at = now()
        for child in self._children():
            child.settled = settled.get(child.worker_id, child.settled)
            claims = by_worker.pop(child.worker_id, None)
            if claims:
                sys.audit("rota.crew.hand")
                self._dispatch.pool_backoff.handed(child, claims, at)
                for claim, why in child.hand(claims, at, self._lease.renewed_at):
                    self._dispatch.report(child.worker_id, (claim.job_id, claim.token, why))
                self._health_checks.not_later(
                    at + min((held.timeout or STUCK for held in child.running), default=STUCK)
                )
        for claims in by_worker.values():
            self._dispatch.holdings.drop(claim.token for claim in claims)

    # directives and maintenance

    def _wake(self, listener: Any) -> None:
        listener.clear()
        self._dispatch.wake()
        self._maintenance.wake()

    def _on_poll(self, found: PollResult, by_time: bool) -> None:
        """Handle what maintenance found: perhaps a new directive, perhaps workers that registered a process here."""
        if found.processes is not None:
            self._external_workers.watch_only(found.processes)
        if found.orphans is not None:
            self._external_workers.end_lost_orphans({process.worker_id for process in found.orphans})
        if (
            found.directive is not None and self._end_lost_at is None
        ):  # also while it stops: its last jobs may be called off
            self._directives.carry_out(found.directive)
        if by_time:  # otherwise the bell rang, which wakes the work too
            self._dispatch.wake()

    def _acknowledge(self, number: int) -> None:
        self._lease.acknowledged = number
        self._lease.renew(now())
