"""Whether a port is free, and who has it otherwise."""

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
    """Who listens there already, for people; None when nobody does, or none of this can be found out."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(place)
            trial.listen(1)
    except OSError as problem:
        return _name(host, port) if problem.errno == errno.EADDRINUSE else None
    return None


def choose(settings: Settings, asked: int | None = None) -> tuple[int, str | None]:
    """The port to take, and who has the usual one if it is another. One that somebody chose is never moved from."""
    wanted = settings.http_port if asked is None else asked
    other = holder(settings.http_host, wanted) if wanted else None
    if other is None:
        return wanted, None
    if wanted == Settings.http_port and asked is None:
        for port in range(wanted + 1, min(wanted + MOST_TRIED, 65536)):
            if holder(settings.http_host, port) is None:
                return port, other
    raise Conflict(
        f"port {wanted} is taken by {other}: choose another with --port, or `http_port` in rota.toml; 0 is any"
    )


def _name(host: str, port: int) -> str:
    from urllib.request import urlopen

    where = (
        "127.0.0.1" if host in ("", "0.0.0.0") else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host  # noqa: S104 - compared, not bound
    )
    try:
        with urlopen(f"http://{where}:{port}/api/v1/info", timeout=PATIENCE) as answer:
            told: Any = json.loads(answer.read(1_000_000))
        pids = [str(each["pid"]) for each in told["orchestrators"]]
        whose = f", whose orchestrator is process {pids[0]}" if len(pids) == 1 else ""
        return f"another rota {told['version']}{whose}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"another program (`ss -ltnp sport = :{port}` names it)"
