"""Processes that are watched though they are not our children: orphans, registered workers, our own parent."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from rota.process import system
from rota.process.host import is_stopped, process_start
from rota.process.tree import end_family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.core.times import Duration, Instant
    from rota.orchestrator.event_loop import EventLoop
    from rota.store.workers.crews import Process


def is_alive(process: Process) -> bool:
    """Whether this is still the very process: its number may be another's by now. What cannot be read is no match."""
    if process.pid_start is None or process_start(process.pid) != process.pid_start:
        return False
    if process.slot is None or not os.path.isdir("/proc/self"):  # elsewhere no environment can be read
        return True
    return system.initial_variable(process.pid, "ROTA_WORKER_ID") == process.worker_id


def is_alive_or_all_gone(process: Process) -> bool:
    """Whether a worker lives; of one that does not, all that it started is ended before its job is anyone's."""
    if is_alive(process):
        return True
    end_family(process.worker_id)
    return False


class Watch:
    """Calls back once when a process that it watches has ended."""

    def __init__(self, loop: EventLoop, ended: Callable[[Process], None]) -> None:
        self._loop = loop
        self._ended = ended
        self._descriptors: dict[str, tuple[Process, int]] = {}
        self._stopped_since: dict[str, Instant] = {}

    def add(self, processes: Iterable[Process]) -> None:
        """Watch these from now on; one that is gone already is called back for at once."""
        for process in processes:
            if process.worker_id not in self._descriptors:
                self._add(process)

    def keep_only(self, workers: set[str]) -> None:
        """Forget all but these."""
        for worker in self._descriptors.keys() - workers:
            self._forget(worker)

    def processes(self) -> list[Process]:
        return [process for process, _ in self._descriptors.values()]

    def stopped_for(self, worker: str, at: Instant) -> Duration:
        """For how long the process has been found stopped, as by SIGSTOP, whenever this was asked."""
        process, _ = self._descriptors[worker]
        if not is_stopped(process.pid):
            self._stopped_since.pop(worker, None)
            return 0
        return at - self._stopped_since.setdefault(worker, at)

    def signal(self, worker: str, number: signal.Signals) -> None:
        """Signal its whole session, if it leads one and is still itself."""
        process, _ = self._descriptors[worker]
        if is_alive(process):
            try:
                os.killpg(process.pid, number)
            except (ProcessLookupError, PermissionError):
                pass

    def _add(self, process: Process) -> None:
        try:
            descriptor = system.open_process(process.pid)
        except (ProcessLookupError, PermissionError):
            self._ended(process)
            return
        if not is_alive(process):
            os.close(descriptor)
            self._ended(process)
            return
        self._descriptors[process.worker_id] = (process, descriptor)
        self._loop.watch(descriptor, lambda: self._gone(process))

    def _gone(self, process: Process) -> None:
        self._forget(process.worker_id)
        self._ended(process)

    def _forget(self, worker: str) -> None:
        _, descriptor = self._descriptors.pop(worker)
        self._stopped_since.pop(worker, None)
        self._loop.forget_all(descriptor)
        os.close(descriptor)


class Parent:
    """Our parent, for as long as it lives: its number is its own until we have another parent."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._start = process_start(pid)
        self._leads = False
        self.pidfd: int | None = None
        try:
            self._leads = os.getpgid(pid) == pid
            if hasattr(os, "pidfd_open"):
                self.pidfd = os.pidfd_open(pid)
        except OSError:
            pass

    @property
    def is_gone(self) -> bool:
        return os.getppid() != self._pid

    @property
    def is_stopped(self) -> bool:
        """Whether it is stopped, as by SIGSTOP."""
        return not self.is_gone and is_stopped(self._pid)

    def end_session(self) -> None:
        """End it and all that it started; its number cannot be another's while a child in its group lives."""
        if self.is_gone and process_start(self._pid) not in (None, self._start):
            return
        try:
            if self._leads:
                os.killpg(self._pid, signal.SIGKILL)
            elif not self.is_gone:
                os.kill(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
