"""Health checks: every second, and whenever a deadline comes, every slot is examined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import health, slot
from rota.core.death import DEADLINE, HEARTBEAT_TIMEOUT, INVALID_FRAMES, OPERATOR
from rota.core.health import Activity
from rota.core.ids import run_id
from rota.core.times import SECOND
from rota.orchestrator.dispatch import STUCK
from rota.process import leaks as leaked

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.frames.assignment import Assignment
    from rota.core.times import Instant
    from rota.orchestrator.maintenance import Maintenance
    from rota.orchestrator.slot import SupervisedSlot
    from rota.orchestrator.worker_process import WorkerProcess
    from rota.process.log import Say
    from rota.settings import Settings

EVERY = SECOND
LEAVES_WITHIN = SECOND  # a worker that ends closes its socket a moment before it is gone


class HealthChecks:
    """Looks for deadlines that have come, workers that are not well, and processes that were left behind."""

    def __init__(
        self,
        places: dict[str, SupervisedSlot],
        settings: Settings,
        maintenance: Maintenance,
        say: Say,
        end: Callable[[WorkerProcess, str, str], None],
        fill: Callable[[SupervisedSlot], None],
    ) -> None:
        self._places = places
        self._health = settings.health
        self._maintenance = maintenance
        self._say = say
        self._end = end
        self._fill = fill
        self._leaks: set[int] = set()
        self.due: Instant = 0

    def not_later(self, at: Instant) -> None:
        """Make sure that the next check comes no later than this."""
        self.due = min(self.due, at)

    def go(self, at: Instant, may_fill: Callable[[SupervisedSlot], bool]) -> None:
        """Check every slot, if it is time."""
        if at < self.due:
            return
        self.due = at + EVERY
        for place in list(self._places.values()):
            if place.child is not None:
                self.not_later(self._look(place, place.child, at))
            elif place.start_at is not None and at < place.start_at:
                self.not_later(place.start_at)
            elif place.start_at is not None and may_fill(place):
                self._fill(place)
        self._look_for_leaks()
        self._look_for_blocker()
        self._maintenance.snapshot(at, self._snapshot)

    def _look(self, place: SupervisedSlot, child: WorkerProcess, at: Instant) -> Instant:
        """Check that the worker is well and its job within its time; return when to check again."""
        running = child.running
        deadlines = [due for held in running if (due := self._mind_deadline(child, held, at)) is not None]
        has_window = len(child.held) > len(running) and not child.recalled
        stuck_at = child.job_started_at + STUCK if has_window else None
        if stuck_at is not None and at >= stuck_at:
            child.recall()
        late = child.health.state == health.LATE
        suspect = Activity(
            running[0].job_id if running else None, min(deadlines, default=None), late and child.is_stopped()
        )
        child.health, reason = child.health.assess(self._health, suspect, at)
        if reason is not None:
            self._end(child, reason, reason.replace("_", " "))
        if child.closed_at is not None and at >= child.closed_at + LEAVES_WITHIN:
            self._end(child, INVALID_FRAMES, "its frame socket is closed, so that it can neither report nor be told")
        state = slot.STOPPING if place.state == slot.STOPPING else child.health.state
        if state != place.shown:
            place.shown = state
            self._maintenance.on_health(place.name, state)
        moments = [*deadlines, *(until for _, until in child.cancelled.values()), *([stuck_at] if stuck_at else [])]
        return min((moment for moment in moments if moment > at), default=at + EVERY)

    def _mind_deadline(self, child: WorkerProcess, held: Assignment, at: Instant) -> Instant | None:
        """End a running job that is past its time-out, or that was cancelled and goes on; return its deadline."""
        deadline = child.deadline(held)
        reason, until = child.cancelled.get(held.token, ("", at))
        if reason and at >= until:
            why = DEADLINE if reason == DEADLINE else OPERATOR
            self._end(child, why, f"job {held.job_id} was to end and has not")
        elif deadline is not None and at >= deadline and not child.cancel(held, DEADLINE, at):
            self._end(child, DEADLINE, f"job {held.job_id} is past its time-out")
        return deadline

    def _look_for_leaks(self) -> None:
        """Report processes that handlers left behind; end those whose worker is gone.

        One whose run still goes on is not left behind: its handler may wait for it.
        """
        living = {place.child.worker_id: place.child for place in self._places.values() if place.child is not None}
        known = {child.pid for child in living.values()}
        found = leaked.find(known)
        leaks = set[int]()
        for leak in found:
            worker = leak.worker_id
            if worker is not None and worker not in living:
                leaked.end(known, worker)
                continue
            name, _, in_hand = living[worker].names if worker is not None else ("-", "-", None)
            if worker is not None:
                child = living[worker]
                # A worker that is cut short has given its job back, and takes what it started with it in a moment.
                if child.cut or leak.run_id in {run_id(held.token) for held in child.running}:
                    continue
            leaks.add(leak.pid)
            if leak.pid not in self._leaks:
                run = leak.run_id or in_hand
                text = f"process {leak.pid} ({leak.command}) was left behind; it is ended with its worker"
                self._say(text, name, worker, run)
                self._maintenance.note("worker", "leak", worker or "-", run=run, pid=leak.pid, command=leak.command)
        self._leaks = leaks

    def _look_for_blocker(self) -> None:
        """End a worker that is stopped while it keeps the store locked: it would stop everyone."""
        session = self._maintenance.blocker()
        for place in self._places.values():
            if session is not None and place.child is not None and place.child.pid == session:
                self._end(place.child, HEARTBEAT_TIMEOUT, "it is stopped while it keeps the store locked")

    def _snapshot(self) -> list[dict[str, object]]:
        """Return the state of every slot, for the history of health."""
        found = []
        for place in self._places.values():
            about: dict[str, object] = {"name": place.name, "status": place.state}
            if place.child is not None:
                job = place.child.held[0].job_id if place.child.held else None
                about |= {"health": place.child.health.state, "worker": place.child.worker_id, "job": job}
            found.append(about)
        return found
