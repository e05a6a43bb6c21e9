"""A command as a handler: a process in a session of its own for each job, its output kept, its exit an outcome."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

from rota.core.claim import Done, Failed, Snoozed
from rota.core.errors import BadInput
from rota.core.frames.outcomes import LARGEST_RESULT
from rota.core.ids import printable
from rota.core.jsontext import Raw, encode, sound
from rota.core.times import MINUTE, SECOND
from rota.process import run_environment
from rota.process.run_environment import ERR, OUT
from rota.process.tree import end_session
from rota.worker.capture import PIECE, Folder, Sink
from rota.worker.channel import readable
from rota.worker.handler import DEADLINE, after_cancel
from rota.worker.template import fill

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from rota.core.claim import Outcome
    from rota.core.frames.assignment import RunJob
    from rota.core.times import Duration
    from rota.worker.template import Command

    class Holder(Protocol):
        """What running a command needs of the holder of the job."""

        worker_id: str
        cancels: dict[int, Callable[[], None]]
        sessions: set[int]

        def log(self, job: RunJob, text: str) -> None: ...


TRY_LATER = 75
LATER: Duration = MINUTE
TERM_TO_KILL = 5.0
TAIL = 2048
LONGEST_DRAIN = 1.0
LOST = (
    "the command has ended, but its exit code is unknown: something in this worker reaped it, or ignores SIGCHLD;"
    " remove signal.signal(SIGCHLD, SIG_IGN) or os.wait() from the application"
)
_CHECK_EVERY = 0.05
_OURS = ("ROTA_FRAME_FD", "ROTA_SLOT", "ROTA_QUEUE", "ROTA_APP", "ROTA_EXEC", "ROTA_RUNS", *run_environment.PIECES)
_PASSING_ERRORS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY)


class Commands:
    """Runs commands for one worker, one at a time."""

    def __init__(self, holder: Holder, folder: Folder, database: str) -> None:
        self._holder = holder
        self._folder = folder
        self._database = database

    def run(self, command: Command, job: RunJob) -> Outcome:
        """Run a command to its end, or to the end of its time; return its outcome, also if something goes wrong."""
        run = job.run_id
        try:
            words = [os.fsencode(word) for word in fill(command.arguments, _fields(job))]
            # Only checked: it travels as text, and the command must be able to read it.
            _sound(job.checkpoint, "checkpoint")
        except BadInput as problem:
            return Failed(str(problem), again=False)
        except UnicodeEncodeError:
            return Failed("an argument would hold text that no file name or argument can hold", again=False)
        try:
            with self._folder.open(run + OUT, LARGEST_RESULT + 2) as out, self._folder.open(run + ERR, TAIL) as err:
                return self._run(words, command, job, (out, err))
        except OSError as problem:
            return Failed(f"what {run} writes cannot be kept: {problem.strerror}: {problem.filename or ''}")

    def _run(self, words: list[bytes], command: Command, job: RunJob, sinks: tuple[Sink, Sink]) -> Outcome:
        out, err = sinks
        with Wakeup() as wakeup:
            self._holder.cancels[job.token] = wakeup.wake
            try:
                # Cancelled before there was anything to wake.
                if job.cancelled:
                    return after_cancel(job.cancelled, Failed(""))
                try:
                    process = self._start(words, job)
                except OSError as problem:
                    text = f"{os.fsdecode(words[0])} cannot be started: {problem.strerror}"
                    return Failed(text, again=problem.errno in _PASSING_ERRORS)
                limit = None if command.timeout is None else time.monotonic() + command.timeout / SECOND
                self._holder.sessions.add(process.pid)
                pump = _Pump(process, sinks, wakeup)
                try:
                    ended_for = pump.until_ended(job, limit)
                finally:
                    self._holder.sessions.discard(process.pid)
                    # The pump only waits without reaping: its process group id stays taken until all of it is killed.
                    code = process.wait()
            finally:
                del self._holder.cancels[job.token]
        for name, sink in (("stdout", out), ("stderr", err)):
            if sink.dropped:
                text = f"{name} was kept up to its limit: {sink.dropped:,} of {sink.total:,} bytes were dropped"
                self._holder.log(job, text)
        outcome = Failed(LOST) if pump.is_lost else _outcome(code, out, err.tail)
        return outcome if ended_for is None else after_cancel(ended_for, outcome)

    def _start(self, words: list[bytes], job: RunJob) -> subprocess.Popen[bytes]:
        with _as_file(_document(job)) as document:
            return subprocess.Popen(
                words,
                stdin=document,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env=self._environment(job),
            )

    def _environment(self, job: RunJob) -> dict[str, str]:
        """Return the worker's own environment, with the claim; it has nothing of the job's data."""
        return {
            **{name: value for name, value in os.environ.items() if name not in _OURS},
            "ROTA_JOB_ID": str(job.id),
            "ROTA_CLAIM_TOKEN": str(job.token),
            run_environment.WHOLE: job.run_id,
            "ROTA_WORKER_ID": self._holder.worker_id,
            "ROTA_DB": self._database,
        }


class Wakeup:
    """A pipe by which another thread wakes the one that waits for a command."""

    def __init__(self) -> None:
        self.descriptor, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def __enter__(self) -> Wakeup:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)
        os.close(self._write)

    def wake(self) -> None:
        try:
            os.write(self._write, b"!")
        except BlockingIOError:
            pass


class _Pump:
    """Copies the output of a process into its sinks until it has ended, and ends it if it is cancelled or too slow."""

    def __init__(self, process: subprocess.Popen[bytes], sinks: tuple[Sink, Sink], wakeup: Wakeup) -> None:
        assert process.stdout is not None and process.stderr is not None
        self._pid = process.pid
        self._streams = {process.stdout.fileno(): sinks[0], process.stderr.fileno(): sinks[1]}
        # Kept: the file objects close their descriptors when they are garbage.
        self._files = (process.stdout, process.stderr)
        for descriptor in self._streams:
            os.set_blocking(descriptor, False)
        self._wakeup = wakeup.descriptor
        # Something else in this process reaped it, so its number may belong to another process by now.
        self.is_lost = False
        self._pidfd = _pidfd(process.pid)

    def until_ended(self, job: RunJob, limit: float | None) -> str | None:
        """Return why the process was ended; None if it ended by itself."""
        ended_for: str | None = None
        kill_at: float | None = None
        try:
            while not self._has_ended():
                now = time.monotonic()
                if ended_for is None and (job.cancelled or (limit is not None and now >= limit)):
                    # SIGTERM, then SIGKILL: one second less than the orchestrator waits for a cancel (decision 13).
                    ended_for, kill_at = job.cancelled or DEADLINE, now + TERM_TO_KILL
                    end_session(self._pid, signal.SIGTERM)
                elif kill_at is not None and now >= kill_at:
                    end_session(self._pid, signal.SIGKILL)
                    kill_at = now + 1.0
                self._turn(kill_at if ended_for is not None else limit, wakeable=ended_for is None)
        finally:
            # What it left behind in its session ends with it.
            if not self.is_lost:
                end_session(self._pid, signal.SIGKILL)
            self._drain()
            if self._pidfd is not None:
                os.close(self._pidfd)
            for file in self._files:
                file.close()
        return ended_for

    def _turn(self, until: float | None, wakeable: bool) -> None:
        descriptors = [
            *self._streams,
            *([self._wakeup] if wakeable else []),
            *([] if self._pidfd is None else [self._pidfd]),
        ]
        patience = None if until is None else max(0.0, until - time.monotonic())
        if self._pidfd is None:
            patience = _CHECK_EVERY if patience is None else min(_CHECK_EVERY, patience)
        for descriptor in readable(descriptors, patience):
            if descriptor in self._streams:
                self._read(descriptor)

    def _read(self, descriptor: int) -> bool:
        """Copy a piece; return whether there may be more."""
        try:
            data = os.read(descriptor, PIECE)
        except BlockingIOError:
            return False
        sink = self._streams[descriptor]
        if data:
            sink.put(data)
        else:
            del self._streams[descriptor]
        return bool(data)

    def _drain(self) -> None:
        """Copy what is left in the pipes."""
        # Bounded: a process that left the session may hold a pipe open, and is not waited for.
        until = time.monotonic() + LONGEST_DRAIN
        for descriptor in list(self._streams):
            while time.monotonic() < until and self._read(descriptor):
                pass

    def _has_ended(self) -> bool:
        try:
            # WNOWAIT: the process is not reaped yet.
            return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            self.is_lost = True
            return True


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that is readable once a process has ended; None if there is none, or it was reaped."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return None


def _outcome(code: int, out: Sink, errors: bytes) -> Outcome:
    """Return the outcome of an exit code; above 128 it is the number of a signal, as shells report it."""
    if code == 0:
        return Done(_result(out))
    if code == TRY_LATER:
        return Snoozed(LATER, f"the command asked to be tried later: exit code {TRY_LATER}")
    number = -code if code < 0 else code - 128 if 128 < code <= 128 + 64 else None
    how = f"the command ended with exit code {code}" if number is None else f"the command was ended by signal {number}"
    tail = "\n".join(map(printable, errors.decode("utf-8", "replace").splitlines())).strip()
    return Failed(f"{how}: {tail}" if tail else how)


def _result(out: Sink) -> str | None:
    """Return the last line of stdout, if it is a JSON document and not too large."""
    tail = out.tail.rstrip(b"\r\n")
    _, newline, line = tail.rpartition(b"\n")
    # Without a newline the kept end may begin in the middle of the line.
    if (not newline and out.total > len(out.tail)) or len(line) > LARGEST_RESULT:
        return None
    try:
        text = line.decode().strip()
        sound(text)
    except ValueError:
        return None
    return text


def _fields(job: RunJob) -> dict[str, Any]:
    """Return what the templates of arguments may name."""
    payload = _sound(job.payload, "payload")
    return {"id": job.id, "title": job.title, "queue": job.queue, "kind": job.kind, "payload": payload}


def _sound(text: str | None, what: str) -> Any:
    """Return the value of a job's JSON. Refuses JSON that the command could not read."""
    try:
        return None if text is None else sound(text)
    except ValueError as problem:
        raise BadInput(f"the {what} cannot be read: {problem}") from None


def _document(job: RunJob) -> bytes:
    """Return the job for stdin, as `rota show --json` shows it, with what earlier attempts found."""
    document = {
        **(job.whole or _basics(job)),
        "payload": None if job.payload is None else Raw(job.payload),
        "checkpoint": None if job.checkpoint is None else Raw(job.checkpoint),
        "previous_runs": [run.document() for run in job.previous_runs],
    }
    return encode(document).encode("utf-8", "replace") + b"\n"


def _basics(job: RunJob) -> dict[str, Any]:
    """Return what is known of a job where the orchestrator did not send the whole of it."""
    names = ("id", "title", "queue", "kind", "priority", "payload", "max_attempts")
    return {name: getattr(job, name) for name in names}


def _as_file(data: bytes) -> Any:
    """Return a file with this data, which a process may read at its own pace."""
    # Not a pipe: a command that never reads its stdin would block us once the pipe is full.
    if hasattr(os, "memfd_create"):
        file: Any = os.fdopen(os.memfd_create("rota-job", os.MFD_CLOEXEC), "w+b")
    else:
        import tempfile

        file = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    file.write(data)
    file.seek(0)
    return file
