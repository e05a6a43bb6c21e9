"""Running an orchestrator in this process, from its start to its clean end."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import TYPE_CHECKING

from rota.core.errors import Conflict
from rota.core.orchestrator import LATE, shown
from rota.core.record import Record
from rota.core.slot import HTTP
from rota.core.times import MILLISECOND
from rota.orchestrator.console import Console, Shown
from rota.orchestrator.event_loop import EventLoop
from rota.orchestrator.pidlock import MAIN, PidLock, holder, lock_path
from rota.orchestrator.store_thread import StoreThread
from rota.orchestrator.supervisor import Supervisor
from rota.orchestrator.tracking import Tracked, open_worker_rows
from rota.process.host import process_start
from rota.process.log import TEXT, Log, keep_small
from rota.process.system import inherit_orphans, reset_signals
from rota.store.open import POSTGRES, REMOTE, open_store
from rota.store.sqlite.lock import blocker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rota.process.log import Say
    from rota.settings import Settings
    from rota.store.engine.database import Database
    from rota.store.store import Store

NO_WORKERS = "no app and no program is named, so it starts no workers and looks after those that register"
BESIDE = "beside"
LAST_WORD = 1.0
LAST_BEAT = 3.0


class Start(Record):
    """What an orchestrator is started with. `crew` None: beside others, under the first name that is free.

    `tie` is the end of a pipe whose other end an application holds: when that is closed, the crew stops. `folder` is
    one more place to look for the app. `http`: the HTTP API has a slot too. `app` None: there is none, and only pools
    with a program have workers.
    """

    app: str | None
    pools: Mapping[str, int]
    crew: str | None = MAIN
    log_format: str = TEXT
    tie: int | None = None
    folder: str | None = None
    http: bool = False
    told: Mapping[str, str] = {}  # more for the environment of its workers
    log: str | None = None  # the file that stdout and stderr are, where nobody else writes to it
    programs: Mapping[str, str] = {}  # the command of each pool whose workers are not those of the app


def run(
    settings: Settings,
    start: Start,
    startup: Callable[[str, str | None], None] = lambda *_: None,
    screen: Console | None = None,
) -> int:
    """Keep a crew alive until a signal says stop, and return the exit code.

    `startup` is called with the crew's name; for the rest see `Supervisor`.

    A `screen` gets the lines of the log, and how each job ended.
    """
    say = screen or Log(start.log_format)
    with open_store(settings.db, settings, make=True, told=say) as store:
        store.now()  # one that is out of reach from the start is no outage to wait through
        crew, pidlock = _take_place(store, start.crew)
        url, told = store.database.url, {**start.told, "ROTA_RUNS": store.database.runs}
    try:
        return _keep(settings.replace(db=url), start.replace(crew=crew, told=told), say, startup)
    finally:
        pidlock.release()


def _take_place(store: Store, crew: str | None) -> tuple[str, PidLock]:
    """Become the one orchestrator of a crew; return its name and its lock."""
    number = 1
    while True:
        name = crew or (BESIDE if number == 1 else f"{BESIDE}-{number}")
        pidlock = PidLock(lock_path(store.database.beside, name))
        other = _rival(store, name) or pidlock.take()
        if other is None:
            return name, pidlock
        if crew == MAIN:
            raise _second(store.database, other)
        if crew is not None:
            raise Conflict(f"a crew named {crew} is running already, pid {other}: give this one another --name")
        number += 1


def _rival(store: Store, crew: str) -> int | None:
    """Another process of this host that runs this crew, as the store has it.

    Its lock may be elsewhere: beside a server or an API it is in a folder of its user's own.
    """
    if not store.database.url.startswith((*POSTGRES, *REMOTE)):
        return None
    place, now = (crew, store.orchestrators.own_host()), store.now()
    for each in store.orchestrators.live():
        lives = each.pid != os.getpid() and process_start(each.pid) is not None
        if lives and (each.crew, each.host) == place and shown(each.status, each.lease_expires_at, now) != LATE:
            return each.pid
    return None


def refuse_second(database: Database) -> None:
    """Raise `Conflict` if an orchestrator of this database is running."""
    if (other := holder(lock_path(database.beside))) is not None:
        raise _second(database, other)


def _second(database: Database, other: int) -> Conflict:
    text = f"an orchestrator of {database.path} is running already, pid {other}"
    return Conflict(f"{text}: `rota orchestrator stop` ends it, `rota open` shows it in a browser")


def _keep(settings: Settings, start: Start, say: Say, startup: Callable[[str, str | None], None]) -> int:
    assert settings.db is not None and start.crew is not None
    reset_signals()
    inherit_orphans()
    loop, notify, database, name = EventLoop(), SystemdNotify(), settings.db, start.crew

    def on_startup(problem: str | None) -> None:
        notify.ready("workers are up" if problem is None else "no worker is up yet")
        startup(name, problem)

    def on_trouble(text: str) -> None:
        say(text, "store")

    def blocked_by() -> int | None:
        return None if database.startswith((*POSTGRES, *REMOTE)) else blocker(database)

    store_thread = StoreThread(lambda: open_store(database, settings), on_trouble, blocked_by)
    worker_rows = open_worker_rows(settings, say)
    tracked = Shown(worker_rows, say) if isinstance(say, Console) else Tracked(worker_rows)
    settings = settings.replace(programs=tuple(start.programs.items()))
    crew = Supervisor(loop, store_thread, settings, _environment(settings, start), say, on_startup, tracked)

    def stop() -> None:
        notify.stopping()
        crew.stop()

    loop.watch(store_thread.wakeup, store_thread.carry_on)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.on_signal(number, stop)
    if start.tie is not None:
        tie = start.tie

        def untied() -> None:
            loop.forget_all(tie)
            stop()

        loop.watch(tie, untied)
    pools = ", ".join(f"{queue} {count}" for queue, count in start.pools.items()) or NO_WORKERS
    say(f"pid {os.getpid()}, crew {start.crew}: {pools}")
    has_api = start.http and not database.startswith(REMOTE)
    crew.begin(start.crew, {**start.pools, HTTP: 1} if has_api else start.pools)
    while not crew.gone:
        loop.turn(min(crew.tick(), notify.tick()), crew.stalled)
        if start.log is not None:
            keep_small(start.log)
    answered = store_thread.close(LAST_WORD)
    if worker_rows is not None:
        worker_rows.close(LAST_BEAT)
    loop.close()
    say("stopped")
    return crew.exit_code if answered else 1


def _environment(settings: Settings, start: Start) -> dict[str, str]:
    """Return the environment of workers: where their application and database are, and their limits."""
    paths = [start.folder, os.environ.get("PYTHONPATH")]
    found = {"PYTHONPATH": os.pathsep.join(path for path in paths if path)} if start.folder else {}
    return {
        **os.environ,
        **found,
        "ROTA_APP": start.app or "",
        "ROTA_DB": settings.db or "",
        "ROTA_FRAME_INTERVAL": f"{settings.frame_interval // MILLISECOND}ms",
        "ROTA_MAX_JOBS": str(settings.max_jobs),
        "ROTA_MAX_RSS": str(settings.max_rss),
        "ROTA_CAPTURE_LIMIT": str(settings.capture_limit),
        **start.told,
    }


class SystemdNotify:
    """Tell systemd that the crew is ready, alive and stopping; does nothing without `NOTIFY_SOCKET`."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "").replace("@", "\0", 1)
        wanted = environment.get("WATCHDOG_USEC", "")
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._every = int(wanted) / 2e6 if self._address and wanted.isdigit() and mine else None
        self._due = 0.0 if self._every is not None else float("inf")

    def ready(self, status: str) -> None:
        self._say(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        self._say("STOPPING=1")

    def tick(self) -> float:
        """Reset the watchdog, if it is time; return when to come again, on the monotonic clock."""
        now = time.monotonic()
        if self._every is not None and now >= self._due:
            self._due = now + self._every
            self._say("WATCHDOG=1")
        return self._due

    def _say(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaker:
                speaker.sendto(text.encode(), self._address)
        except OSError:
            # Supervision goes on, whether or not systemd listens.
            pass
