"""The output of runs, in files beside the database: found for readers, removed with the runs."""

from __future__ import annotations

import errno
import os
import stat

from rota.core.errors import Denied, NotFound, RotaError
from rota.process.host import host_id
from rota.process.run_environment import ERR, OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.core.claim import Captured
    from rota.store.store import Store

CHUNK = 64 * 1024
LARGEST_TEXT = 256 * 1024
# What the systems say of a link that is not followed; Linux says of one that would be a folder that it is none.
LINKS = (errno.ELOOP, errno.ENOTDIR)


def known(folder: str, captured: Captured) -> Captured:
    """Add rota's own files to a run that named none and has them."""
    if captured.transcript_path is not None or captured.stderr_path is not None:
        return captured
    start = os.path.join(folder, captured.run_id)
    if not os.path.exists(start + OUT):
        return captured
    return captured.replace(transcript_path=start + OUT, stderr_path=start + ERR, is_own=True)


def remove(folder: str, runs: Iterable[str]) -> None:
    """Remove the output of these runs. Nothing is removed through a link in the folder's place: it is not ours."""
    try:
        place = _entered(folder)
    except (FileNotFoundError, RotaError):
        return
    try:
        for run in runs:
            for ending in (OUT, ERR):
                try:
                    os.unlink(run + ending, dir_fd=place)
                except FileNotFoundError:
                    pass
    finally:
        os.close(place)


def _entered(folder: str) -> int:
    """Open a folder itself, so that names relative to it stay in it, whatever is put in its place."""
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as problem:
        if problem.errno not in LINKS:
            raise
        raise RotaError(f"{folder} is a link or no folder, so what is in it is not what a run wrote") from None


def path_of(captured: Captured, stream: str) -> str:
    """Return the path to which a run writes its `transcript` or its `stderr`."""
    _refuse_remote(captured)
    path: str | None = getattr(captured, f"{stream}_path")
    if path is None:
        raise NotFound(f"{captured.run_id} did not say where it writes its {stream}: its capture_io names that")
    return path


def _refuse_remote(captured: Captured) -> None:
    if captured.is_remote:
        raise Denied(f"{captured.run_id} said over HTTP where it writes: a file that was named there is read by nobody")


def path_so_far(captured: Captured, stream: str) -> str | None:
    """Return the path of an output; None as long as a live run may still name it."""
    is_open = captured.is_live and not captured.is_remote and getattr(captured, f"{stream}_path") is None
    return None if is_open else path_of(captured, stream)


def missing(captured: Captured, stream: str, path: str | None) -> NotFound:
    """Return the error for a file that does not exist."""
    when = "is not there yet" if captured.is_live else "is gone"
    return NotFound(f"{path}, the {stream} of {captured.run_id}, {when}")


def refuse_elsewhere(store: Store, job: int, captured: Captured) -> str | None:
    """Refuse a run of another host, whose files are read there; otherwise return the name of this host.

    None if its worker is no longer known.
    """
    _refuse_remote(captured)
    worker = store.jobs.get(job).worker_id if captured.is_live else store.claims.run(captured.run_id).worker_id
    place = store.workers.place(worker or "")
    if place is None:
        return None
    host, hostname = place
    if host != host_id():
        raise NotFound(
            f"{captured.run_id} was on {hostname}: what it wrote is there, and `rota logs {job}` shows it there"
        )
    return hostname


def _opened(path: str, own: bool) -> int:
    """Open an output for reading, without waiting for a pipe or following a link in its place."""
    folder, name = os.path.split(path) if own else ("", path)
    place = _entered(folder) if own else None
    try:
        return os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    except OSError as problem:
        if problem.errno != errno.ELOOP:
            raise
        raise RotaError(f"{path} is a link, so it is not what a run wrote") from None
    finally:
        if place is not None:
            os.close(place)


class Output:
    """A captured file, opened for reading; `size` is None if it does not exist.

    One that is rota's `own` is looked for in its folder itself. Where a run named another, it may lead through links.
    """

    def __init__(self, path: str, own: bool) -> None:
        self._descriptor = -1
        self.size: int | None = None
        try:
            self._descriptor = _opened(path, own)
        except FileNotFoundError:
            return
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._descriptor)
            raise RotaError(f"{path} is not a regular file, so it is not what a run wrote")
        self.size = found.st_size

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        if self.size is not None:
            os.close(self._descriptor)

    def copy(self, put: Callable[[bytes], None], offset: int) -> int:
        """Write from `offset` up to the end at the time of opening, in pieces, and return that end."""
        assert self.size is not None
        if offset > self.size:  # it was written anew
            offset = 0
        while offset < self.size and (data := self.part(offset, min(CHUNK, self.size - offset))):
            put(data)
            offset += len(data)
        return offset

    def part(self, offset: int, most: int) -> bytes:
        """Return at most `most` bytes from `offset` on."""
        return os.pread(self._descriptor, most, offset)

    def tail(self) -> str:
        """Return the last part of the file as text."""
        assert self.size is not None
        return self.part(max(0, self.size - LARGEST_TEXT), LARGEST_TEXT).decode("utf-8", "replace")
