"""A crew inside an application: started, steered and ended from Python."""

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

_ties: weakref.WeakSet[Crew] = weakref.WeakSet()


class Crew:
    """Workers of an application's tasks, kept alive by an orchestrator of their own beside any other.

    It ends with the program that started it, however that ends. Use it in a `with` block, or `start` and `stop` it.
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
        self._wanted = name
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._tie = -1
        self.name = name or ""

    def start(self) -> Crew:
        """Start it, and wait until its first worker is up; `RotaError` says why when none comes up."""
        if self.is_running:
            raise Conflict(f"crew {self.name} is running already")
        database = self._app.store.database
        log = self._log or log_of(database.beside, "crew.log")
        theirs, self._tie = os.pipe()
        try:
            address, folder = _address(self._app)
            wanted = Start(address, self._pools, self._wanted, tie=theirs, folder=folder)
            wanted = wanted.replace(programs=dict(self._app.settings.programs))
            started = start_daemon(self._app.settings.replace(db=database.url), wanted, log, self._log is None)
        finally:
            os.close(theirs)
        if started.problem is not None:
            self._untie()
            problem = Conflict if started.code == Conflict.exit_code else RotaError
            raise problem(f"no worker of the crew came up: {started.problem}; its log is {log}")
        self._process, self.name = started.process, started.crew
        _ties.add(self)
        return self

    def stop(self, graceful: bool = False, now: bool = False) -> None:
        """Let it finish what is in hand and wait until it has ended: 20 s long, without end, or not at all."""
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
        self._untie()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The orchestrator's process."""
        return self._process.pid if self._process is not None and self.is_running else None

    def pause(self, queue: str | None = None) -> None:
        """Let no job start, of one of its queues or of all of them; its workers live on."""
        for each in self._queues(queue):
            self._app.queues.pause(each)

    def resume(self, queue: str | None = None) -> None:
        for each in self._queues(queue):
            self._app.queues.resume(each)

    def scale(self, **pools: int) -> None:
        """So many workers from now on; shrinking lets the surplus finish first."""
        for queue, count in pools.items():
            self._app.store.slots.scale(self.name, host_id(), queue, count)
            self._pools[queue] = count

    def reset(self, slot: str) -> None:
        """Clear the restarts of a slot that failed, and fill it."""
        if slot not in (each.name for each in self.slots()):
            raise NotFound(f"crew {self.name} has no slot {slot}")
        self._app.store.slots.reset(slot)

    def slots(self) -> list[Slot]:
        """Its slots, with their health and the history of their restarts."""
        return [slot for slot in self._app.store.slots.of_crew(self.name, host_id()) if slot.wanted]

    def states(self) -> dict[str, str]:
        """How each slot stands: `up`, `starting`, `backoff`, `failed` …"""
        return {slot.name: slot.status for slot in self.slots()}

    def workers(self) -> list[Worker]:
        """Its living workers."""
        names = {slot.name for slot in self.slots()}
        return [worker for worker in self._app.workers.list() if worker.slot in names]

    def events(self, topics: Sequence[str] = (), after: str | None = None) -> Iterator[dict[str, Any]]:
        """What these topics (none: all) say now, then what changes, without end."""
        return self._app.events(topics, after)

    def __enter__(self) -> Crew:
        return self if self.is_running else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _queues(self, queue: str | None) -> list[str]:
        if queue is not None and queue not in self._pools:
            raise Refused(f"crew {self.name} has no pool for queue {queue}")
        return [queue] if queue is not None else list(self._pools)

    def _untie(self) -> None:
        if self._tie >= 0:
            os.close(self._tie)
            self._tie = -1


def _address(app: App) -> tuple[str, str | None]:
    """Where a worker finds this very app: `module:name`, and a folder to look in besides the usual ones."""
    for module, attributes in [(name, dict(vars(module))) for name, module in list(sys.modules.items())]:
        for attribute, value in attributes.items():
            if value is app:
                name, folder = _importable(module)
                return f"{name}:{attribute}", folder
    raise BadInput("workers could not find this App: give it a name in a module, such as `app = App()` in shop.py")


def _importable(module: str) -> tuple[str, str | None]:
    """The name under which another interpreter imports a module; a script goes by its file."""
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


def _let_go() -> None:
    """In a forked child: it is not the application, so its end means nothing to the crew."""
    for crew in list(_ties):
        crew._untie()
        crew._process = None


os.register_at_fork(after_in_child=_let_go)
