"""This host: its identity, its clock, its folders, and the identity of its processes.

A host is a boot and a process namespace, so that a container is a host of its own.
"""

from __future__ import annotations

import os
import stat
import time

from rota.core.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Instant

SHARED = "/tmp/rota-"  # noqa: S108 - looked at before it is used
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot() -> Instant:
    """Return the time since boot, sleep included: the clock that all processes and leases of a host share."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1000


def wall() -> Instant:
    return time.time_ns() // 1000


class BootClock:
    """The clock of one boot: the time since boot, plus the offset that the store keeps for this boot (decision 6)."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def now(self) -> Instant:
        return since_boot() + self._offset

    def wall(self) -> Instant:
        return wall()


def boot_id() -> str:
    """Return an id of this boot of the machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        import subprocess

        answer = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=True)
        return answer.stdout.strip()


def host_id() -> str:
    """Return an id of this boot and process namespace: a container is a host of its own."""
    try:
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        namespace = "0"
    return f"{boot_id()}/{namespace}"


def is_this(host: str) -> bool:
    """Whether an API means this host by that name: over HTTP a host's name begins with its token's id."""
    return host == host_id() or host.endswith(f"/{host_id()}")


def files_of(database: str, part: str) -> str:
    """Return the prefix of this host's files for a database elsewhere, in a folder of the user's own."""
    import zlib

    given = os.environ.get("XDG_RUNTIME_DIR")
    own = given or f"{SHARED}{os.getuid()}"
    if not given:
        _make_own(own)
    elif os.path.isdir(own) and os.stat(own).st_uid != os.getuid():
        raise _anothers(own)
    folder = os.path.join(own, "rota")
    os.makedirs(folder, 0o700, exist_ok=True)
    return os.path.join(folder, f"{zlib.crc32(database.encode()):08x}-{part}")


def log_of(beside: str, name: str) -> str:
    """Return the path of a log: beside a database that is a file; otherwise several databases share a folder."""
    return os.path.join(os.path.dirname(beside), name) if os.path.isfile(beside) else f"{beside}.{name}"


def _make_own(folder: str) -> None:
    """Create a folder where everyone may write; refuse one that is not ours, and links."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise _anothers(folder)


def _anothers(folder: str) -> StoreError:
    return StoreError(f"{folder} is another user's, or a link: set XDG_RUNTIME_DIR to a folder of yours")


def process_start(pid: int) -> int | None:
    """Return when a process began, in ticks since boot, or None if it is gone.

    Together with its number that identifies it: a number may be given to a later process.
    """
    fields = _stat(pid)
    return None if fields is None or fields[0] == b"Z" else int(fields[19])


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, as by SIGSTOP."""
    fields = _stat(pid)
    return fields is not None and fields[0] in (b"T", b"t")


def _stat(pid: int) -> list[bytes] | None:
    """Return the fields of `/proc/PID/stat` behind the name: the state is the first, the start the twentieth."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except FileNotFoundError:
        return None if os.path.isdir("/proc/self") else _ask_ps(pid)
    except OSError:
        return None


def _ask_ps(pid: int) -> list[bytes] | None:
    """Return those fields where there is no /proc, with a number made of the start's date."""
    import subprocess
    import zlib

    words = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    state, _, start = subprocess.run(words, check=False, capture_output=True).stdout.strip().partition(b" ")
    return [state[:1], *[b""] * 18, str(zlib.crc32(start)).encode()] if state else None
