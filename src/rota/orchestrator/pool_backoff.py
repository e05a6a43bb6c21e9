"""Pools that back off because every job fails: nothing is handed out for a while, then the newest worker tries a job.

Each round waits twice as long and tries twice as many, so that a few bad jobs in a row do not hold up good ones behind.

The workers that failed are replaced, for what they keep, such as a connection, may be what is broken. What fails
meanwhile is put off and spends no attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.claim import Done, Failed
from rota.core.source import KIND
from rota.core.streak import Streak
from rota.core.times import format_duration
from rota.orchestrator.maintenance import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.claim import Outcome
    from rota.core.frames.assignment import Assignment
    from rota.core.times import Instant
    from rota.orchestrator.slot import SupervisedSlot
    from rota.orchestrator.worker_process import WorkerProcess
    from rota.process.log import Say
    from rota.store.claims.exchange import Idle

PUT_OFF = 4  # times the wait of its round, so that the next rounds try other jobs
NO_STREAK = Streak()


class PoolBackoff:
    """How the jobs of each pool end."""

    def __init__(self, places: dict[str, SupervisedSlot], say: Say) -> None:
        self._places = places
        self._say = say
        self._pools: dict[str, Streak] = {}

    def ended(self, child: WorkerProcess, held: Assignment, outcome: Outcome, at: Instant) -> Outcome:
        """A job of this worker ended; what is reported of it."""
        if held.kind.startswith(KIND):
            return outcome
        before = self._pools.get(child.queue, NO_STREAK)
        if isinstance(outcome, Done):
            child.failing = False
            self._pools[child.queue] = before.after_success()
            if before.is_on:
                self._say(f"a job went well: pool {child.queue} goes on", *child.names)
        elif isinstance(outcome, Failed) and outcome.again and outcome.reason is None:
            child.failing = True
            after = self._pools[child.queue] = before.after_failure(held.job_id, at)
            if after.is_on:
                self._replace(child.queue)
            if before.is_on:
                return outcome.replace(put_off=PUT_OFF * after.wait)
            if after.is_on:
                self._say(f"every job of pool {child.queue} fails, the last with {outcome.error}", *child.names)
                self._announce(child.queue, after)
        return outcome

    def admit(self, idle: Sequence[Idle], at: Instant) -> list[Idle]:
        """Those of the workers with room that may have jobs now: of a pool that backs off the newest, in its turn."""
        found = [each for each in idle if not self._is_on(each.queue)]
        for queue, streak in self._pools.items():
            if streak.is_on and at >= streak.until:
                free = {each.worker_id: each for each in idle if each.queue == queue and not each.held}
                newest = max(self._children(queue, free), key=lambda child: child.started_at, default=None)
                if newest is not None:
                    able = free[newest.worker_id]
                    found.append(able.replace(room=min(streak.tries, able.room) if able.crowd else streak.tries))
        return found

    def handed(self, child: WorkerProcess, claims: Iterable[Assignment], at: Instant) -> None:
        """These go to a worker: where its pool backs off, that is the try of this round."""
        if self._is_on(child.queue) and any(not each.kind.startswith(KIND) for each in claims):
            child.trying = True
            after = self._pools[child.queue] = self._pools[child.queue].after_try(at)
            self._announce(child.queue, after)

    def due(self, at: Instant) -> Instant:
        """When the next pool may try a job."""
        return min((each.until for each in self._pools.values() if each.is_on and each.until > at), default=NEVER)

    def _is_on(self, queue: str) -> bool:
        return queue in self._pools and self._pools[queue].is_on

    def _announce(self, queue: str, streak: Streak) -> None:
        if streak.is_on:
            self._say(
                f"pool {queue} tries {streak.tries} in {format_duration(streak.wait)}, unless one goes well before"
            )
        else:
            self._say(f"pool {queue} goes on: after so many tries its jobs are to blame")

    def _replace(self, queue: str) -> None:
        """Let the workers leave whose last job failed."""
        for child in self._children(queue, None):
            is_trying = child.trying and child.held  # what it is handed in this round it tries to the end
            if child.failing and not is_trying and not child.stopping and child.ending is None:
                self._say("is replaced: its last job failed, as all others do", *child.names)
                child.ask_to_stop()

    def _children(self, queue: str, ids: Iterable[str] | None) -> list[WorkerProcess]:
        children = [place.child for place in self._places.values() if place.child is not None]
        return [child for child in children if child.queue == queue and (ids is None or child.worker_id in ids)]
