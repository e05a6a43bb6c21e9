"""The few calls that differ between systems. Linux comes first; `ROTA_PORTABLE=1` forces the form for the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

PORTABLE = os.environ.get("ROTA_PORTABLE") == "1" or not hasattr(os, "pidfd_open")
_SUBREAPER = 36
_LOOK_EVERY = 0.1


def open_process(pid: int) -> int:
    """A descriptor that is readable once the process has ended; `ProcessLookupError` when there is none."""
    if not PORTABLE:
        return os.pidfd_open(pid)
    os.kill(pid, 0)
    read, write = os.pipe()
    threading.Thread(target=_await_end, args=(pid, write), name=f"rota-process-{pid}", daemon=True).start()
    return read


def send(descriptor: int, pid: int, number: signal.Signals) -> None:
    """Signal the very process that such a descriptor is of; by its number where the system knows no other way."""
    try:
        if PORTABLE:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:  # it has ended
        pass


def reset_signals() -> None:
    """Undo what our parent left us: that ended children vanish before we reap them, or that signals are held back."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def inherit_orphans() -> None:
    """Let processes that lose their parent become ours, so that none escapes by starting a session of its own."""
    if PORTABLE or not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """Our child processes, inherited ones too."""
    if PORTABLE:
        pairs = (line.split() for line in _ps("-A", "-o", "pid=,ppid=").splitlines())
        return [int(pid) for pid, parent in pairs if int(parent) == os.getpid()]
    found = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children", "rb") as file:
                found += [int(pid) for pid in file.read().split()]
        except OSError:
            pass
    return found


def wake_pipe() -> tuple[int, int]:
    """A pipe by which a signal or another thread wakes a loop: its ends to read and to write."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    return read, write


def initial_variable(pid: int, name: str) -> str | None:
    """Return the value that an environment variable had when a process began; None if it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return None
    start = f"{name}=".encode()
    return next((pair[len(start) :].decode(errors="replace") for pair in pairs if pair.startswith(start)), None)


def command(pid: int) -> str:
    """What the process runs, for people."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()[:100]
    except OSError:
        return _ps("-o", "command=", "-p", str(pid)).strip()[:100]


def _await_end(pid: int, write: int) -> None:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        while _is_there(pid):
            time.sleep(_LOOK_EVERY)
    os.close(write)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _ps(*words: str) -> str:
    return subprocess.run(["ps", *words], check=False, capture_output=True, text=True).stdout
