"""What tells one host from another: its boot and its process namespace, so that a container is a host of its own.

And what tells its processes apart: which one a number means, and which worker they come from.
"""

from __future__ import annotations

import os
import signal
import time

from rota.store.sqlite.clock import boot_id

PATIENCE = 0.5


def host_id() -> str:
    try:
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        namespace = "0"
    return f"{boot_id()}/{namespace}"


def process_start(pid: int) -> int | None:
    """When a process began, in ticks since boot: with its number it tells it from a later one. None: it is gone."""
    fields = _stat(pid)
    return None if fields is None or fields[0] == b"Z" else int(fields[19])


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, as by SIGSTOP."""
    fields = _stat(pid)
    return fields is not None and fields[0] in (b"T", b"t")


def _stat(pid: int) -> list[bytes] | None:
    """What the system says of a process: its state first, its start as the twentieth."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except FileNotFoundError:
        return None if os.path.isdir("/proc/self") else _ask_ps(pid)
    except OSError:
        return None


def _ask_ps(pid: int) -> list[bytes] | None:
    """The same where there is no /proc, with the start as a number made of its date."""
    import subprocess
    import zlib

    words = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    state, _, start = subprocess.run(words, check=False, capture_output=True).stdout.strip().partition(b" ")
    return [state[:1], *[b""] * 18, str(zlib.crc32(start)).encode()] if state else None


def end_family(worker: str) -> None:
    """End all that a dead worker started, in whatever session it is, and wait until it is gone."""
    deadline = time.monotonic() + PATIENCE
    while family := [pid for pid in _processes() if _is_of(pid, worker)]:
        if time.monotonic() > deadline:
            return
        for pid in family:
            _kill(pid, worker)
        time.sleep(0.001)


def _kill(pid: int, worker: str) -> None:
    """By its descriptor, so that what is looked at is what is ended, though its number be given away meanwhile."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _is_of(pid, worker):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _processes() -> list[int]:
    """All that the system tells of; none where it does not."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except FileNotFoundError:
        return []


def _is_of(pid: int, worker: str) -> bool:
    """Whether a living process was started by this worker; the helper of an orphan is not meant."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return False
    return f"ROTA_WORKER_ID={worker}".encode() in pairs and not any(
        pair.startswith(b"ROTA_WORKER_PID=") for pair in pairs
    )
