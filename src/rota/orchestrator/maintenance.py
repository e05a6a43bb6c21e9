"""Periodic work of an orchestrator: poll for directives, run ticks and reconcile, show its workers' health, prune."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from typing import TYPE_CHECKING

from rota.core.errors import NotAllowed, RotaError
from rota.core.event import change
from rota.core.times import HOUR, MILLISECOND, MINUTE, SECOND
from rota.orchestrator import store_thread as urgency
from rota.process import system
from rota.process.host import is_stopped
from rota.store.maintenance.prune import Stride

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.core.event import NounChanged
    from rota.core.schedule import NewSchedule
    from rota.core.source import Declared
    from rota.core.times import Duration, Instant
    from rota.orchestrator.store_thread import StoreThread
    from rota.orchestrator.worker_process import WorkerProcess
    from rota.process.log import Say
    from rota.settings import Settings
    from rota.store.maintenance.prune import Pruned
    from rota.store.store import Store
    from rota.store.workers.crews import PollResult

RECONCILE_EVERY = MINUTE
PRUNE_FIRST, PRUNE_EVERY = 5 * SECOND, HOUR  # a crew that has just begun has better things to do
MIRROR_EVERY = SECOND
SOONEST = 20 * MILLISECOND
PATIENCE = 3.0
AFTER_WORK: Duration = 5 * MILLISECOND
NEVER: Instant = 1 << 62


def now() -> Instant:
    """The loop's clock: it only measures durations."""
    return time.monotonic_ns() // 1000


# How much to prune in one go, so that nobody who waits for the store waits for long.
FIRST, MOST = 8, 500
SHORT, LONG = 8 * MILLISECOND, 20 * MILLISECOND
SHARE = 4  # of the time that the steps leave to others, to that of a step
SHORTEST_PAUSE = 5 * MILLISECOND


class Maintenance:
    """Polls the store when a poll is due or a notification came, one request at a time."""

    def __init__(
        self,
        store_thread: StoreThread,
        settings: Settings,
        say: Say,
        found: Callable[[PollResult, bool], None],
    ) -> None:
        self._store_thread = store_thread
        self._settings = settings
        self._say = say
        self._found = found
        self._id = 0
        self._is_polling = self._is_mirroring = False
        self._woken_at: Instant | None = None
        self._ask_at: Instant = 0
        self._poll_at: Instant = 0
        self._reconcile_at: Instant = 0
        self._snapshot_at: Instant = 0
        self._mirror_at: Instant = 0
        self._declared_by: dict[str, list[Declared]] = {}
        self._reports: dict[str, WorkerProcess] = {}
        self._health: dict[str, str | None] = {}
        self._facts: list[NounChanged] = []
        self._blocked_by: tuple[int, bool] | None = None
        self._pruning: Iterator[Pruned] | None = None
        self._stride = Stride(FIRST)
        self._prune_at: Instant | None = None

    @property
    def due(self) -> Instant:
        """When to come again. A request under way is not due: its answer wakes the loop, however late it comes."""
        mirror_at = self._mirror_at if self._id and self._has_changes and not self._is_mirroring else NEVER
        look_at = self._ask_at if self._woken_at is None else min(self._ask_at, self._woken_at)
        return min(
            NEVER if self._is_polling else look_at, mirror_at, NEVER if self._prune_at is None else self._prune_at
        )

    @property
    def _has_changes(self) -> bool:
        return bool(self._reports or self._health or self._facts)

    def begin(self, id: int) -> None:
        self._id, self._woken_at = id, now()
        self._prune_at = now() + PRUNE_FIRST
        self._snapshot_at = now() + self._settings.health_history

    def wake(self) -> None:
        """Poll soon: something may have changed. An exchange for the new work goes first."""
        if self._woken_at is None:
            self._woken_at = now() + AFTER_WORK

    def tick(self, at: Instant, known_directive: int) -> None:
        if not self._id:
            self._ask_at = at + self._settings.poll_interval
            return
        is_woken = self._woken_at is not None and at >= self._woken_at
        if (is_woken or at >= self._ask_at) and not self._is_polling:
            self._ask(at, known_directive)
        if at >= self._mirror_at and self._has_changes and not self._is_mirroring:
            self._mirror_at = at + MIRROR_EVERY
            self._mirror()
        if self._prune_at is not None and at >= self._prune_at:
            self._prune_at = None
            self._store_thread.ask(urgency.POLL, self._prune, self._pruned)

    def on_report(self, child: WorkerProcess) -> None:
        """Mirror a worker's report to the store, for those who read it there."""
        self._reports[child.worker_id] = child

    def on_health(self, slot: str, state: str | None) -> None:
        """Mirror the changed health of a slot's worker to the store."""
        self._health[slot] = state

    def note(self, noun: str, verb: str, which: str, **details: object) -> None:
        """Append to the event log with the next mirror."""
        self._facts.append(change(noun, verb, which, details))

    def declare(self, worker: str, sources: list[Declared], schedules: list[NewSchedule]) -> None:
        """Declare the sources and schedules of a worker's application."""
        if sources:

            def on_declared(answer: RotaError | None) -> None:
                if not isinstance(answer, RotaError):
                    self._declared_by[worker] = sources
                self._declared("sources", answer)

            self._store_thread.ask(urgency.WORK, lambda store: store.sources.declare(sources), on_declared)
        if schedules:
            on_answer = partial(self._declared, "schedules")
            self._store_thread.ask(urgency.WORK, lambda store: store.schedules.declare(schedules), on_answer)

    def forget(self, child: WorkerProcess) -> None:
        """Forget a worker that is gone."""
        self._declared_by.pop(child.worker_id, None)
        self._reports.pop(child.worker_id, None)
        self._health.pop(child.slot, None)

    def snapshot(self, at: Instant, slots: Callable[[], list[dict[str, object]]]) -> None:
        """Log the health of every slot, if its history is wanted and it is time."""
        if self._settings.health_history and at >= self._snapshot_at:
            self._snapshot_at = at + self._settings.health_history
            for each in slots():
                self.note("slot", "snapshot", str(each.pop("name")), **each)

    def blocker(self) -> int | None:
        """Return the session of a stopped process that keeps the store locked while we wait, if there is one."""
        holder = self._store_thread.blocked_by() if self._store_thread.busy_for() > PATIENCE else None
        if holder is None or holder == os.getpid():
            self._blocked_by = None
            return None
        stopped = is_stopped(holder)
        if (holder, stopped) != self._blocked_by:
            self._blocked_by = (holder, stopped)
            named = f"process {holder} ({system.command(holder)})"
            self._say(
                f"{named} is stopped and keeps the store locked: `kill -CONT {holder}` lets it go on"
                if stopped
                else f"waiting for the store, whose write lock {named} took last"
            )
        if not stopped:
            return None
        try:
            return os.getsid(holder)
        except OSError:
            return None

    def _ask(self, at: Instant, known_directive: int) -> None:
        self._is_polling, self._woken_at, by_time = True, None, at >= self._ask_at
        self._ask_at = at + self._settings.poll_interval
        id = self._id
        is_poll, reconciles = at >= self._poll_at, at >= self._reconcile_at
        if is_poll:
            self._poll_at = at + self._settings.poll_interval
            self._declare_again()
        if reconciles:
            self._reconcile_at = at + RECONCILE_EVERY

        def poll(store: Store) -> PollResult:
            return store.orchestrators.poll(id, known_directive, reconciles, is_poll)

        self._store_thread.ask(urgency.POLL, poll, lambda answer: self._polled(answer, by_time))

    def _declare_again(self) -> None:
        """Declare sources again that somebody removed while a worker that declares them lives."""
        known = {each.name: each for sources in self._declared_by.values() for each in sources}
        if known:
            on_answer = partial(self._declared, "sources")
            self._store_thread.ask(
                urgency.WORK, lambda store: store.sources.declare_missing(list(known.values())), on_answer
            )

    def _polled(self, answer: PollResult | RotaError, by_time: bool) -> None:
        self._is_polling = False
        if isinstance(answer, RotaError):
            self._say(str(answer))
            return
        if answer.due is not None:
            self._ask_at = min(self._ask_at, now() + max(SOONEST, answer.due))
        self._found(answer, by_time)

    def _prune(self, store: Store) -> Duration | None:
        """Prune one stride, in the store thread; return how long it took, or None after the last."""
        if self._pruning is None:
            self._pruning = store.history.steps(stride=self._stride)
        began = now()
        try:
            is_over = next(self._pruning, None) is None
        except NotAllowed:  # a role that may work and not forget
            is_over = True
        if is_over:
            self._pruning = None
        return None if is_over else now() - began

    def _pruned(self, took: Duration | RotaError | None) -> None:
        if isinstance(took, RotaError):
            self._say(str(took))
        if took is None or isinstance(took, RotaError):
            self._prune_at = now() + PRUNE_EVERY
            return
        self._stride.size = stride_after(self._stride.size, took)
        self._prune_at = now() + pause_after(took)

    def _declared(self, what: str, answer: RotaError | None) -> None:
        if isinstance(answer, RotaError):
            self._say(f"the {what} of a worker's app were not made known: {answer}")

    def _mirror(self) -> None:
        reports: list[tuple[str | None, str]] = [
            (json.dumps(child.report) if child.report else None, worker) for worker, child in self._reports.items()
        ]
        health: list[tuple[str | None, str]] = [(state, slot) for slot, state in self._health.items()]
        facts = self._facts
        self._reports, self._health, self._facts = {}, {}, []

        def mirror(store: Store) -> None:
            store.orchestrators.mirror(reports, health)
            if facts:
                store.orchestrators.note(facts)

        self._is_mirroring = True
        self._store_thread.ask(urgency.WORK, mirror, self._mirrored)

    def _mirrored(self, answer: RotaError | None) -> None:
        self._is_mirroring = False
        if isinstance(answer, RotaError):
            self._say(str(answer))


def stride_after(size: int, took: Duration) -> int:
    """Return the size of the next step, after one of this size took this time."""
    if took > LONG:
        return max(1, size // 2)
    return min(MOST, size * 2) if took < SHORT else size


def pause_after(took: Duration) -> Duration:
    """Return how long others have the store to themselves after a step."""
    return max(SHORTEST_PAUSE, SHARE * took)
