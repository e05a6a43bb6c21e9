"""A session of processes, which its leader's number names: ended as a whole while that leader is still ours to reap."""

from __future__ import annotations

import os
import signal


def end(leader: int, number: signal.Signals) -> None:
    """Signal all that are in it: the leader's group at once, then those that a shell put into groups of their own."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        pass
    for pid in members(leader):
        try:
            if os.getpgid(pid) != leader:
                os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def members(leader: int) -> list[int]:
    """The processes in it that have not ended; none where the system does not tell."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, _, _, session, *_ = file.read().rpartition(b")")[2].split()
            except (OSError, ValueError):
                continue
            if int(session) == leader and state not in (b"Z", b"X"):
                found.append(int(name))
    return found
