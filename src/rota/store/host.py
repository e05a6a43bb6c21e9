"""What tells one host from another: its boot and its process namespace, so that a container is a host of its own."""

from __future__ import annotations

import os

from rota.store.sqlite.clock import boot_id


def host_id() -> str:
    try:
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        namespace = "0"
    return f"{boot_id()}/{namespace}"


def process_start(pid: int) -> int | None:
    """When a process began, in ticks since boot: with its number it tells it from a later one. None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] == b"Z" else int(fields[19])
