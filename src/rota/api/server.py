"""The server: uvicorn around the app, with the limits and the manners that an open port needs."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import socket
import sys
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn

from rota.api.app import create
from rota.api.auth import is_loopback
from rota.api.credentials import address_file, local_token
from rota.api.middleware import LOOPBACK
from rota.api.port import holder
from rota.api.protocol import HANDSHAKE_WITHIN, LARGEST_INCOMPLETE, MOST_IDLE, Careful
from rota.api.supervision import Pipe
from rota.core.access import is_local
from rota.core.errors import BadInput, Conflict, Refused, RotaError
from rota.core.times import SECOND
from rota.settings import load
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.api.app import Api
    from rota.settings import Settings
    from rota.store.store import Store

KEEP_ALIVE, GRACE = 15, 3
MOST_AT_ONCE, BACKLOG = 4000, 1024
DESCRIPTORS = MOST_AT_ONCE + MOST_IDLE + 1000
SWITCH_EVERY = 0.0005
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # and where this machine finds it  # noqa: S104 - refused without a token


def serve(settings: Settings, told: Callable[[str], None], frame_fd: int | None = None) -> int:
    """Answer until a signal says stop; `told` hears where, and the link for a browser.

    `frame_fd` is the pipe to the orchestrator that watches this process. Its log is kept, so no link goes there.
    """
    with open_store(settings.db, settings, told=told) as store:
        if store.link is not None:
            raise BadInput("this serves a database, and an HTTP API was named: do it where the database is")
        database, beside = store.database.url, store.database.beside
        _refuse_open_door(store, settings)
        token, secret = local_token(store)
    settings = settings.replace(db=database)
    with _bound(settings) as listening:
        api = create(database, settings, hosts_of(settings), secret.encode())
        url = _url(settings, listening)
        for number in (signal.SIGINT, signal.SIGTERM):  # until the server hears them
            signal.signal(number, lambda *_: sys.exit(0))
        with address_file(beside, url):
            told(f"rota answers at {url}")
            if frame_fd is None:
                code = api.new_code(token.id, time.time())
                told(f"open it in a browser within a minute: {url}/open?code={code}")
            _run(api, settings, listening, frame_fd)
    return 0


def main() -> int:
    """`python -m rota.api`: the settings come from the environment and the nearest `rota.toml`."""
    frame_fd = os.environ.get("ROTA_FRAME_FD")
    try:
        return serve(load(), _tell, int(frame_fd) if frame_fd else None)
    except RotaError as problem:
        print(f"rota: {problem}", file=sys.stderr)
        return problem.exit_code


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def hosts_of(settings: Settings) -> list[str]:
    """The names that the server answers to: this machine's own, the address it was given, and those set."""
    named = [host.strip() for host in settings.http_hosts.split(",") if host.strip()]
    given = [] if settings.http_host in _ANYWHERE else [settings.http_host]
    return [*LOOPBACK, *given, *named]


def _refuse_open_door(store: Store, settings: Settings) -> None:
    """Listen beyond this machine only for people who have made a token for it."""
    if is_loopback(settings.http_host):
        return
    made = [token for token in store.tokens.list() if token.revoked_at is None and not is_local(token.name)]
    if not made:
        raise Refused(
            f"{settings.http_host} can be reached from other machines, and there is no access token: make one with "
            "`rota token create NAME --scope read`, or listen on 127.0.0.1"
        )


@contextmanager
def _bound(settings: Settings) -> Iterator[socket.socket]:
    host, port = settings.http_host, settings.http_port
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind)
    except OSError as problem:
        raise Refused(f"{host} is not an address to listen on: {problem.strerror}") from None
    with listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(place)
            listening.listen(BACKLOG)
        except OSError as problem:
            other = holder(host, port)
            by = f", taken by {other}" if other is not None else ""
            text = f"cannot listen on {host}:{port} ({problem.strerror}{by}): choose another with --port or http_port"
            raise Conflict(text) from None
        yield listening


def _url(settings: Settings, listening: socket.socket) -> str:
    host = _ANYWHERE.get(settings.http_host, settings.http_host)
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.http_cert else 'http'}://{host}:{listening.getsockname()[1]}"


def _run(api: Api, settings: Settings, listening: socket.socket, frame_fd: int | None) -> None:
    for file in filter(None, (settings.http_cert, settings.http_key)):
        if not os.access(file, os.R_OK):
            raise Refused(f"{file} cannot be read: http_cert and http_key name a certificate and its key")
    config = uvicorn.Config(
        api,
        http=Careful,
        h11_max_incomplete_event_size=LARGEST_INCOMPLETE,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # a warning per malformed request would let anybody fill the disk
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        limit_concurrency=MOST_AT_ONCE,
        ssl_certfile=settings.http_cert,
        ssl_keyfile=settings.http_key,
    )
    _keep_memory_together()
    _allow_descriptors()
    # The loop lets go of the interpreter with every system call: threads that compute give it back soon.
    sys.setswitchinterval(SWITCH_EVERY)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        server = _Server(config, api)
        if frame_fd is not None:
            server.pipe = Pipe(frame_fd, settings.frame_interval / SECOND, server.leave)
        runner.run(server.serve([listening]))


def _keep_memory_together() -> None:
    """One arena for all threads: they take turns anyway, and an arena each costs megabytes (glibc only)."""
    arena_max = -8
    try:
        ctypes.CDLL(None).mallopt(arena_max, 1)
    except (AttributeError, OSError):
        pass


def _allow_descriptors() -> None:
    """The usual limit of 1024 would be used up long before ours."""
    allowed, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(allowed, DESCRIPTORS if ceiling == resource.RLIM_INFINITY else min(DESCRIPTORS, ceiling))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, ceiling))
    Careful.most_idle = min(MOST_IDLE, most // 2)


class _Server(uvicorn.Server):
    """Ends quietly at a signal, and ends streams first, because they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, api: Api) -> None:
        super().__init__(config)
        self._api = api
        self.pipe: Pipe | None = None

    def leave(self) -> None:
        """End soon."""
        self.should_exit = True

    async def startup(self, sockets: Any = None) -> None:
        if self.config.ssl is not None:  # uvicorn has no setting for this, and asyncio waits for a minute
            loop: Any = asyncio.get_running_loop()
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HANDSHAKE_WITHIN)
        await super().startup(sockets)
        if self.pipe is not None:
            self.pipe.begin()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def shutdown(self, sockets: Any = None) -> None:
        if self.pipe is not None:
            self.pipe.end()
        await self._api.end_streams()
        await super().shutdown(sockets)
