"""`rota doctor`: checks of the database and of what is in it."""

from __future__ import annotations

import fcntl
import os
import time

from rota.cli.output import columns
from rota.cli.verb import verb
from rota.core import worker as workers
from rota.core.errors import BadSetting, NotFound, RotaError
from rota.core.queue import BREAKER
from rota.core.record import Record
from rota.core.times import MINUTE, format_duration
from rota.settings import POSTGRES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.cli.invocation import Call
    from rota.store.store import Store

OK, WARN, BAD = "ok", "warn", "bad"
_LARGE_LOG = 256 * 1024 * 1024
_PATIENCE = 1.0


class Finding(Record):
    """The result of one check: its level, and what to do about it."""

    about: str
    level: str
    text: str
    mend: str | None = None


@verb(
    "doctor",
    "check the database and all in it; exit code 1 when something is bad",
    "rota doctor",
)
def doctor(call: Call) -> int:
    from rota.cli.doctor.environment import find_app, look_around, look_at_crew, look_at_notices

    findings: list[Finding] = []
    code, named = 0, ""
    try:
        settings = call.settings()
        named = settings.db or ""
        app = find_app(settings)
        findings += look_around(app)
        with call.store() as store:
            findings += _look(store)
            if store.link is None:
                findings += look_at_crew(store, settings, app)
            findings += look_at_notices(store)
    except BadSetting as problem:
        findings.append(Finding("settings", BAD, str(problem)))
    except RotaError as problem:
        mend = (
            "see that its server runs, and what --db, ROTA_DB or `db` in rota.toml says"
            if named.startswith(POSTGRES)
            else None
        )
        findings.append(Finding("database", BAD, str(problem), mend))
        code = NotFound.exit_code if isinstance(problem, NotFound) else 0
    if call.json:
        call.document([{name: getattr(finding, name) for name in Finding._fields} for finding in findings])
    else:
        rows = [
            (finding.level, finding.about, f"{finding.text}; {finding.mend}" if finding.mend else finding.text)
            for finding in findings
        ]
        call.lines(columns(call, ("CHECK", "ABOUT", "FOUND"), rows))
    return code or int(any(finding.level == BAD for finding in findings))


def _look(store: Store) -> Iterator[Finding]:
    if store.link is not None:
        yield Finding("API", OK, f"{store.database.path} answers, rota {store.link.get('/info')['version']}")
        yield _clock(store)
        yield from _workers(store)
        yield from _queues(store)
        return
    if store.database.dialect == "postgres":
        from rota.cli.doctor.postgres import look

        yield from look(store)
    else:
        yield from _look_at_file(store.database.path)
    yield _schema(store)
    yield _integrity(store)
    yield _counters(store)
    yield _clock(store)
    yield from _workers(store)
    yield from _queues(store)


def _look_at_file(path: str) -> Iterator[Finding]:
    from rota.cli.doctor.environment import room

    yield Finding("database", OK, f"{path}, {os.path.getsize(path):,} bytes")
    yield room(os.path.dirname(path)).replace(about="disk")
    yield _permissions(path)
    yield _file_system(path)
    yield _lock(path)
    yield _log(path)


def _permissions(path: str) -> Finding:
    open_ones = [name for name in (path, os.path.dirname(path)) if os.stat(name).st_mode & 0o022]
    if open_ones:
        return Finding("permissions", WARN, f"others may write to {open_ones[0]}", f"chmod go-w {open_ones[0]}")
    if os.stat(path).st_mode & 0o044:
        return Finding("permissions", WARN, f"others may read {path}", f"chmod go= {path}")
    return Finding("permissions", OK, "yours alone")


def _file_system(path: str) -> Finding:
    from rota.store.sqlite.open_files import NETWORK, file_system

    kind = file_system(os.path.dirname(path))
    if kind in NETWORK:
        return Finding("file system", BAD, f"{kind} is a network file system", "move the database to a local disk")
    return Finding("file system", OK, kind or "unknown")


def _schema(store: Store) -> Finding:
    from rota.store.migrate import LATEST

    version = store.database.version
    if version > LATEST:
        return Finding("schema", WARN, f"{version}, newer than this rota's {LATEST}", "upgrade rota here")
    return Finding("schema", OK, str(version))


def _lock(path: str) -> Finding:
    """Check that the write lock is released within a moment."""
    from rota.store.own_files import open_own
    from rota.store.sqlite.lock import program, sqlite_writer

    descriptor = open_own(f"{path}.lock", os.O_RDWR | os.O_CREAT)
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            is_late = time.monotonic() > deadline
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if is_late:
                    holder = os.pread(descriptor, 64, 0).decode(errors="replace").strip() or "another program"
                    return Finding("write lock", WARN, f"held by process {holder}", "see what that process waits for")
            else:
                stranger = sqlite_writer(path)  # with the fair lock taken, it is no process of rota's
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                if stranger is None:
                    return Finding("write lock", OK, "free")
                if is_late:
                    text = f"held by process {program(stranger)}, which does not queue for it"
                    return Finding("write lock", WARN, text, "end its transaction")
            time.sleep(0.02)
    finally:
        os.close(descriptor)


def _log(path: str) -> Finding:
    log = f"{path}-wal"
    size = os.path.getsize(log) if os.path.exists(log) else 0
    if size > _LARGE_LOG:
        return Finding("write-ahead log", WARN, f"{size:,} bytes", "some program keeps an old view open: end it")
    return Finding("write-ahead log", OK, f"{size:,} bytes")


def _integrity(store: Store) -> Finding:
    verdict = store.database.integrity()
    if verdict != "ok":
        return Finding("integrity", BAD, verdict, "stop all workers and restore the database from a backup")
    return Finding("integrity", OK, "sound")


def _counters(store: Store) -> Finding:
    """Compare the kept counts with the rows, in one snapshot."""
    database = store.database
    with database.read():
        kept = {(queue, status): n for queue, status, n in database.execute("tally.all", {}) if n}
        true = {(queue, status): n for queue, status, n in database.execute("tally.true", {})}
    wrong = sorted(place for place in {*kept, *true} if kept.get(place, 0) != true.get(place, 0))
    if wrong:
        queue, status = wrong[0]
        text = f"{kept.get(wrong[0], 0)} {status} jobs counted in queue {queue}, but there are {true.get(wrong[0], 0)}"
        return Finding("counters", BAD, text, "was the database changed by another program? restore it from a backup")
    return Finding("counters", OK, f"they agree with {sum(true.values()):,} jobs")


def _clock(store: Store) -> Finding:
    apart = store.now() - store.database.wall()
    if abs(apart) > MINUTE:
        word = "ahead of" if apart > 0 else "behind"
        text = f"the store's clock is {format_duration(abs(apart))} {word} the wall: it was set since the last start"
        return Finding("clock", WARN, text, "leases are unaffected; times shown differ until the machine restarts")
    return Finding("clock", OK, f"{format_duration(abs(apart))} from the wall")


def _workers(store: Store) -> Iterator[Finding]:
    living = store.workers.list()
    late = [worker.id for worker in living if store.workers.shown(worker) == workers.LATE]
    if late:
        mend = f"`rota worker status {late[0]}`; `rota reconcile` takes back what the dead hold"
        yield Finding("workers", WARN, f"{len(late)} of {len(living)} late", mend)
    else:
        yield Finding("workers", OK, f"{len(living)} living")
    dead = [worker.id for worker in store.workers.list(gone_too=True) if worker.status == workers.DEAD]
    if dead:
        yield Finding("workers", WARN, f"{len(dead)} dead", f"`rota worker status {dead[0]}` says of what")


def _queues(store: Store) -> Iterator[Finding]:
    statuses = store.queues.list()
    for status in statuses:
        name = status.queue.name
        if status.paused_by is not None:
            by = "its breaker" if status.paused_by == BREAKER else status.paused_by
            why = f" ({status.queue.pause_reason})" if status.queue.pause_reason else ""
            yield Finding("queues", WARN, f"{name} is paused by {by}{why}", f"`rota resume {name}`")
    failed = sum(status.counts["failed"] for status in statuses)
    if failed:
        yield Finding("jobs", WARN, f"{failed:,} failed", "`rota list --status failed`, then `rota retry ID`")
    else:
        yield Finding("jobs", OK, "none failed")
