"""Who a person at a terminal is, and the worker that they stand for."""

from __future__ import annotations

import os

from rota.core.ids import base36


def implicit_name() -> str:
    """The user and the host; in a container a user may have a number alone."""
    import pwd

    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}"


def implicit_id(name: str) -> str:
    """The worker that this person stands for, always the same."""
    import zlib

    text = name.encode()
    return f"worker-{base36((zlib.crc32(text) << 8 | zlib.adler32(text) & 0xFF) % 36**8)}"
