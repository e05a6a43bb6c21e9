"""Workers of this host that are not our children: orphans of a killed orchestrator, and those that gave a pid."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from rota.core import orchestrator as orchestrators
from rota.core.death import EXITED, LOST
from rota.core.worker import Dead
from rota.orchestrator import store_thread as urgency
from rota.orchestrator.maintenance import now
from rota.process.tree import end_family, has_helper
from rota.process.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.core.times import Duration
    from rota.orchestrator.event_loop import EventLoop
    from rota.orchestrator.store_thread import StoreThread
    from rota.process.log import Say
    from rota.settings import Settings
    from rota.store.workers.crews import Process


class ExternalWorkers:
    """Watches their processes and records their ends: calls `gone` for an orphan, `wake` when claims are freed."""

    def __init__(
        self,
        loop: EventLoop,
        store_thread: StoreThread,
        settings: Settings,
        say: Say,
        gone: Callable[[Process], None],
        wake: Callable[[], None],
    ) -> None:
        self._store_thread = store_thread
        self._settings = settings
        self._say = say
        self._gone = gone
        self._wake = wake
        self._adopted: set[str] = set()
        self._orphans = Watch(loop, self._orphan_ended)
        self._registered = Watch(loop, self._registered_ended)

    def take_over(self, orphans: Iterable[Process]) -> None:
        """Watch orphans until they have finished."""
        adopted = list(orphans)
        self._adopted |= {orphan.worker_id for orphan in adopted}
        self._orphans.add(adopted)

    @property
    def orphans(self) -> list[Process]:
        return self._orphans.processes()

    @property
    def has_helpers(self) -> bool:
        """Whether the helper of an orphan that has ended still has reports to write."""
        return bool(self._adopted) and has_helper(self._adopted)

    def end_orphans(self, number: signal.Signals) -> None:
        """Signal all orphans. A helper may see the end first, so the store must know before that it was asked for."""
        for orphan in self.orphans:
            self._end_orphan(orphan.worker_id, number)

    def _end_orphan(self, worker: str, number: signal.Signals) -> None:
        self._store_thread.submit(urgency.DEATH, lambda store: store.orchestrators.end_orphan(worker))
        self._orphans.signal(worker, number)

    def end_lost_orphans(self, living: set[str]) -> None:
        """End orphans that others count as dead, or that are stopped and so renew nothing (decision 10)."""
        for process in self.orphans:
            if process.worker_id not in living or self._orphans.stopped_for(process.worker_id, now()) >= self._silence:
                self._say(f"killing process {process.pid}: nobody hears of it", process.slot or "-", process.worker_id)
                self._orphans.signal(process.worker_id, signal.SIGKILL)

    def watch_only(self, registered: Iterable[Process]) -> None:
        """Watch the workers that registered with a process here, and no others."""
        known = list(registered)
        self._registered.keep_only({process.worker_id for process in known})
        self._registered.add(known)

    @property
    def _silence(self) -> Duration:
        """How long an orphan may be silent: less than its lease, so that its job is not elsewhere before it is gone."""
        policy = self._settings.health
        return min(policy.silent * policy.misses, orchestrators.END_AFTER)

    def _orphan_ended(self, process: Process) -> None:
        """Record the death of an orphan whose helper could not, so that what it held goes back."""
        end_family(process.worker_id)
        self._mark_dead(process, Dead(LOST, f"process {process.pid} ended after its orchestrator was gone"))
        self._gone(process)

    def _registered_ended(self, process: Process) -> None:
        """Record the death of a registered worker at once, without waiting for missed heartbeats."""
        self._say(f"its process {process.pid} has ended", "-", process.worker_id)
        self._mark_dead(process, Dead(EXITED, f"its process, {process.pid}, has ended"))
        self._wake()

    def _mark_dead(self, process: Process, verdict: Dead) -> None:
        self._store_thread.submit(
            urgency.DEATH, lambda store: store.orchestrators.mark_dead(process.worker_id, verdict)
        )
