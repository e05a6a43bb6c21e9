"""The processes of workers that this host's orchestrators started, a file for each beside the API's other files here.

An API tells which workers were left behind. Which process each of them is, it is not asked: what it says would let it,
or whoever speaks for it, choose a process of this host that is then ended.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.workers.crews import Process

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


def remember(folder: str, process: Process) -> None:
    """Write down which process a worker is; asked again, it stays so."""
    os.makedirs(folder, 0o700, exist_ok=True)
    try:
        descriptor = os.open(
            _path(folder, process.worker_id), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except FileExistsError:
        return
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(f"{process.pid} {process.pid_start}")


def recall(folder: str, told: Process) -> Process | None:
    """The process that this worker is; None where no orchestrator of this host wrote that down."""
    try:
        descriptor = os.open(_path(folder, told.worker_id), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, encoding="ascii") as file:
            pid, pid_start = map(int, file.read(100).split())
    except (OSError, ValueError):
        return None
    return told.replace(pid=pid, pid_start=pid_start)


def forget(folder: str, worker: str) -> None:
    """It is gone, and the store knows."""
    try:
        os.unlink(_path(folder, worker))
    except (OSError, ValueError):
        pass


def _path(folder: str, worker: str) -> str:
    if not _LETTERS.issuperset(worker):
        raise ValueError(f"{worker!r} is not a worker's id")
    return os.path.join(folder, worker)
