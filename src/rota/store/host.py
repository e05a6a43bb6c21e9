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
