"""`Crew`: an orchestrator and its workers, started and controlled by an application."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING, Any

from rota.core.errors import BadInput, Conflict, NotFound, Refused, RotaError
from rota.core.ids import queue_name
from rota.orchestrator.daemon import start_daemon
from rota.orchestrator.main import Start
from rota.process.host import host_id, log_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rota.app import App
    from rota.core.worker import Worker
    from rota.store.workers.slots import Slot

_running: weakref.WeakSet[Crew] = weakref.WeakSet()


class Crew:
    """Workers for an application's tasks, kept alive by an orchestrator of their own.

    It ends with the program that started it, however that ends. Use it in a `with` block, or `start` and `stop` it.
    `App.crew` makes one.

    Raises:
        BadInput: There is no pool, or one has no workers.

    Example:
        >>> with app.crew(tag=2, library=10) as crew:
        ...     tag.enqueue("a.flac").wait()
    """

    def __init__(self, app: App, pools: Mapping[str, int], name: str | None = None, log: str | None = None) -> None:
        if not pools:
            raise BadInput("a crew needs pools: write for example app.crew(tag=2, library=10)")
        for queue, count in pools.items():
            queue_name(queue)
            if count < 1:
                raise BadInput(f"{queue}={count!r} is not a pool: write for example tag=2")
        self._app = app
        self._pools = dict(pools)
        self._given_name = name
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = -1
        self.name = name or ""

    def start(self) -> Crew:
        """Start the crew and wait until its first worker is up.

        Returns:
            The crew itself.

        Raises:
            Conflict: It is running already, or another crew has its name.
            RotaError: No worker came up; the message says why.
        """
        if self.is_running:
            raise Conflict(f"crew {self.name} is running already")
        database = self._app.store.database
        log = self._log or log_of(database.beside, "crew.log")
        inherited, self._lifeline = os.pipe()
        try:
            address, folder = _address(self._app)
            start = Start(address, self._pools, self._given_name, tie=inherited, folder=folder)
            start = start.replace(programs=dict(self._app.settings.programs))
            started = start_daemon(self._app.settings.replace(db=database.url), start, log, self._log is None)
        finally:
            os.close(inherited)
        if started.problem is not None:
            self._close_lifeline()
            problem = Conflict if started.code == Conflict.exit_code else RotaError
            raise problem(f"no worker of the crew came up: {started.problem}; its log is {log}")
        self._process, self.name = started.process, started.crew
        _running.add(self)
        return self

    def stop(self, graceful: bool = False, now: bool = False) -> None:
        """Stop the crew and wait until it has ended.

        Running jobs have the time of the setting `shutdown_timeout` to finish.

        Args:
            graceful: Wait for running jobs as long as they take.
            now: End running jobs at once; they run again.
        """
        if self._process is None:
            return
        if graceful:
            self._app.store.orchestrators.drain(self.name, host_id())
        else:
            self._process.send_signal(signal.SIGTERM)
        if now:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        self._process = None
        self._close_lifeline()

    @property
    def is_running(self) -> bool:
        """Whether its orchestrator is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id of the orchestrator."""
        return self._process.pid if self._process is not None and self.is_running else None

    def pause(self, queue: str | None = None) -> None:
        """Start no further job of one of its queues, or of all; its workers stay.

        Raises:
            Refused: The crew has no pool for this queue.
        """
        for name in self._queues(queue):
            self._app.queues.pause(name)

    def resume(self, queue: str | None = None) -> None:
        """Undo `pause`.

        Raises:
            Refused: The crew has no pool for this queue.
        """
        for name in self._queues(queue):
            self._app.queues.resume(name)

    def scale(self, **pools: int) -> None:
        """Change the number of workers per queue; surplus workers finish their jobs first."""
        for queue, count in pools.items():
            self._app.store.slots.scale(self.name, host_id(), queue, count)
            self._pools[queue] = count

    def reset(self, slot: str) -> None:
        """Clear the restarts of a failed slot, so that a worker is started in it.

        Raises:
            NotFound: The crew has no such slot.
        """
        if slot not in self.states():
            raise NotFound(f"crew {self.name} has no slot {slot}")
        self._app.store.slots.reset(slot)

    def slots(self) -> list[Slot]:
        """Return its slots, with their health and the history of their restarts."""
        return [slot for slot in self._app.store.slots.of_crew(self.name, host_id()) if slot.wanted]

    def states(self) -> dict[str, str]:
        """Return the state of each slot by name: `up`, `starting`, `backoff`, `failed` …"""
        return {slot.name: slot.status for slot in self.slots()}

    def workers(self) -> list[Worker]:
        """Return its live workers."""
        names = {slot.name for slot in self.slots()}
        return [worker for worker in self._app.workers.list() if worker.slot in names]

    def events(self, topics: Sequence[str] = (), after: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the live feed; see `App.events`."""
        return self._app.events(topics, after)

    def __enter__(self) -> Crew:
        return self if self.is_running else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _queues(self, queue: str | None) -> list[str]:
        if queue is not None and queue not in self._pools:
            raise Refused(f"crew {self.name} has no pool for queue {queue}")
        return [queue] if queue is not None else list(self._pools)

    def _close_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


def _address(app: App) -> tuple[str, str | None]:
    """Return where a worker finds this app: `module:name`, and a folder to add to its import path."""
    for module, attributes in [(name, dict(vars(module))) for name, module in list(sys.modules.items())]:
        for attribute, value in attributes.items():
            if value is app:
                name, folder = _importable(module)
                return f"{name}:{attribute}", folder
    raise BadInput("workers could not find this App: give it a name in a module, such as `app = App()` in shop.py")


def _importable(module: str) -> tuple[str, str | None]:
    """Return the name under which another interpreter imports a module, and the folder of a script."""
    if module != "__main__":
        return module, None
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name), None
    if file is None:
        raise BadInput("workers cannot import an App of an interactive session: put it into a module, such as shop.py")
    folder, name = os.path.split(os.path.abspath(str(file)))
    return os.path.splitext(name)[0], folder


def _disown() -> None:
    """Disown all crews in a forked child, whose end must not end them."""
    for crew in list(_running):
        crew._close_lifeline()
        crew._process = None


os.register_at_fork(after_in_child=_disown)
