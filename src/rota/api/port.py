"""Ports to listen on: whether one is free, and which program has it."""

from __future__ import annotations

import errno
import json
import socket
from typing import TYPE_CHECKING

from rota.core.errors import Conflict
from rota.settings import Settings

if TYPE_CHECKING:
    from typing import Any

PATIENCE = 1.0
MOST_TRIED = 20


def holder(host: str, port: int) -> str | None:
    """Describe the program that listens on a port; None if the port is free or this cannot be found out."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
            trial.listen(1)
    except OSError as problem:
        return _name(host, port) if problem.errno == errno.EADDRINUSE else None
    return None


def choose(settings: Settings, asked: int | None = None) -> tuple[int, str | None]:
    """Return the port to listen on, and the program that has the default port if that is why another is returned.

    A port that was configured is never replaced by another.
    """
    port = settings.http_port if asked is None else asked
    program = holder(settings.http_host, port) if port else None
    if program is None:
        return port, None
    if port == Settings.http_port and asked is None:
        for other in range(port + 1, min(port + MOST_TRIED, 65536)):
            if holder(settings.http_host, other) is None:
                return other, program
    raise Conflict(
        f"port {port} is taken by {program}: choose another with --port, or `http_port` in rota.toml; 0 is any"
    )


def _name(host: str, port: int) -> str:
    from urllib.request import urlopen

    address = (
        "127.0.0.1" if host in ("", "0.0.0.0") else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host  # noqa: S104 - compared, not bound
    )
    try:
        with urlopen(f"http://{address}:{port}/api/v1/info", timeout=PATIENCE) as answer:
            info: Any = json.loads(answer.read(1_000_000))
        pids = [str(each["pid"]) for each in info["orchestrators"]]
        whose = f", whose orchestrator is process {pids[0]}" if len(pids) == 1 else ""
        return f"another rota {info['version']}{whose}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"another program (`ss -ltnp sport = :{port}` names it)"
