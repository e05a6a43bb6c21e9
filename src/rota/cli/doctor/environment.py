"""Checks beyond the database: the folder, the app, the API, the orchestrator, and jobs that no worker will run."""

from __future__ import annotations

import os
from ssl import SSLError
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

from rota.api.credentials import local_address
from rota.api.port import holder as port_holder
from rota.cli.doctor import BAD, OK, WARN, Finding
from rota.cli.preflight import declared
from rota.cli.verbs.init_run import home
from rota.core import slot as slots
from rota.core.errors import RotaError
from rota.core.record import Record
from rota.core.source import is_internal
from rota.core.times import format_instant
from rota.live.attention import FAILURES, HOST, JOB, RUN, SCHEDULE, notices
from rota.orchestrator.pidlock import holder, lock_path
from rota.settings import Settings
from rota.store.jobs.unknown_kinds import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rota.store.store import Store

_LITTLE, _NEXT_TO_NOTHING = 500_000_000, 20_000_000
_MOST_KINDS = 10


class App(Record):
    """The app that the settings name, and its tasks, or why it could not be imported."""

    name: str | None
    tasks: Mapping[str, str]
    problem: str | None = None


def find_app(settings: Settings) -> App:
    """Read the tasks of the app that the settings name, in a process of its own."""
    if settings.app is None:
        return App(None, {})
    try:
        return App(settings.app, declared(settings.app, home(), settings))
    except RotaError as problem:
        return App(settings.app, {}, str(problem))


def check_surroundings(app: App) -> Iterator[Finding]:
    """Run the checks that need no database."""
    yield _folder(os.getcwd())
    yield _app(app)


def check_crew(store: Store, settings: Settings, app: App) -> Iterator[Finding]:
    """Check the API, the orchestrator and its slots, and find jobs that no worker will run."""
    yield _api(store, settings)
    yield _orchestrator(store)
    yield from _slots(store)
    yield from _unserved(store)
    yield from _unknown(store, app)


def _folder(path: str) -> Finding:
    """Check that the folder can be written to."""
    if not os.access(path, os.W_OK | os.X_OK):
        return Finding(
            "folder", WARN, f"{path} is not yours to write", "go to a folder of yours, or name one with --db"
        )
    return room(path)


def room(path: str) -> Finding:
    """Check how much space the disk has left."""
    left = os.statvfs(path)
    free = left.f_bavail * left.f_frsize
    mend = "make room on the disk; `rota prune` forgets old history"
    if free < _NEXT_TO_NOTHING:
        return Finding("folder", BAD, f"{path}: the disk is full, {free:,} bytes are free", mend)
    if free < _LITTLE:
        return Finding("folder", WARN, f"{path}: the disk is nearly full, {free:,} bytes are free", mend)
    return Finding("folder", OK, f"{path}, {free / 1e9:,.1f} GB free")


def _app(app: App) -> Finding:
    if app.name is None:
        return Finding("app", OK, 'none is named: app = "module:name" in rota.toml is what `rota run` runs')
    if app.problem is not None:
        return Finding("app", BAD, f"{app.name}: {app.problem}", "mend that, or `app` in rota.toml")
    if not app.tasks:
        return Finding("app", WARN, f"{app.name} declares no task", "put @app.task() above a function")
    return Finding("app", OK, f"{app.name} has {', '.join(app.tasks)}")


def check_notices(store: Store) -> Iterator[Finding]:
    """Report the dashboard's notices, except those of slots and queues, which have checks of their own."""
    mends = {
        HOST: "`rota orchestrator status` shows it",
        FAILURES: "`rota list --status failed --queue {}`, then `rota retry ID`",
        SCHEDULE: "`rota schedule list` shows its last job",
        RUN: "`rota why {}`",
        JOB: "`rota retry {}` once it is mended",
    }
    for notice in notices(store):
        if notice.noun in mends:
            about = notice.noun if notice.noun == FAILURES else f"{notice.noun}s"
            yield Finding(about, WARN, notice.text, mends[notice.noun].format(notice.which))


def _api(store: Store, settings: Settings) -> Finding:
    """Check whether the API answers; without one, whether its port is free."""
    try:
        url: str | None = local_address(store.database.beside)
    except RotaError:
        url = None
    if url is not None and _answers(url):
        return Finding("API", OK, f"answers at {url}; `rota open` makes a link to its dashboard")
    if url is not None:
        return Finding("API", WARN, f"nothing answers at {url}: it was killed", "`rota run` or `rota serve` starts it")
    other = port_holder(settings.http_host, settings.http_port) if settings.http_port else None
    if other is None:
        return Finding("API", OK, f"not running; port {settings.http_port} is free")
    if settings.http_port == Settings.http_port:
        return Finding(
            "API", OK, f"not running; port {settings.http_port} is taken by {other}, `rota run` takes the next"
        )
    return Finding("API", WARN, f"port {settings.http_port} is taken by {other}", "end that, or change http_port")


def _answers(url: str) -> bool:
    """Return whether anything answers. An untrusted certificate counts as an answer."""
    try:
        with urlopen(f"{url}/healthz", timeout=2):  # noqa: S310 - http or https
            return True
    except URLError as problem:
        return isinstance(problem.reason, SSLError)
    except OSError:
        return False


def _orchestrator(store: Store) -> Finding:
    path = lock_path(store.database.beside)
    pid = holder(path)
    if pid is not None:
        return Finding("orchestrator", OK, f"running, pid {pid}")
    if os.path.exists(path):
        return Finding(
            "orchestrator", WARN, "it was killed, and did not leave in order", "`rota run` takes over from it"
        )
    return Finding("orchestrator", OK, "not running; `rota run` starts one")


def _slots(store: Store) -> Iterator[Finding]:
    for slot in store.slots.all():
        if slot.wanted and slot.history.failed_at is not None:
            yield Finding(
                "slots", WARN, f"{slot.name} failed: it {slot.history.failure_reason}", f"`rota reset {slot.name}`"
            )
        elif slot.wanted and slot.status == slots.BACKOFF:
            yield Finding(
                "slots", WARN, f"{slot.name} waits after a death", f"`rota why {slot.name}` says for how long"
            )


def _unserved(store: Store) -> Iterator[Finding]:
    """Find queues with ready jobs that no live worker serves."""
    for status in store.queues.list():
        name, ready = status.queue.name, status.counts["ready"]
        if not ready or status.paused_by is not None or is_internal(name):
            continue
        ((able,),) = store.database.execute("worker.count_live_for", {"queue": name})
        if not able:
            mend = f"`rota run`, or a pool for it: `rota scale {name}=1` while a crew runs, {name} = 1 under [pools]"
            yield Finding("queues", WARN, f"{_jobs(ready)} in {name}, and no worker serves it", mend)


def _unknown(store: Store, app: App) -> Iterator[Finding]:
    """Find jobs whose kind the app does not have, and those that a worker has set aside for that reason."""
    for unknown in waiting(store, _MOST_KINDS):
        mend = (
            f"start workers of queue {unknown.queue} whose app has it; they fail after {format_instant(unknown.until)}"
        )
        yield Finding("jobs", WARN, f"{unknown.text} in queue {unknown.queue}", mend)
    for kind, count in store.database.execute("job.kinds_waiting", {}) if app.tasks else ():
        if kind not in app.tasks:
            named = f"of kind {kind}, which {app.name} does not have" if kind else "without a kind, which no task runs"
            mend = f"known are {', '.join(app.tasks)}; `rota cancel ID` those that nobody else does"
            yield Finding("jobs", WARN, f"{_jobs(count)} {named}", mend)


def _jobs(count: int) -> str:
    return f"{count:,} jobs wait" if count != 1 else "1 job waits"
