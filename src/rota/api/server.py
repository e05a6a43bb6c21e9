"""The server process: uvicorn around the app, limits for an open port, and the pipe to its orchestrator."""

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
from typing import TYPE_CHECKING, Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rota.api.app import create
from rota.api.auth import is_loopback
from rota.api.credentials import address_file, local_token
from rota.api.middleware import LOOPBACK
from rota.api.port import holder
from rota.core.access import is_local
from rota.core.errors import BadInput, Conflict, Refused, RotaError
from rota.core.frames import codec as frames
from rota.core.times import SECOND
from rota.settings import load
from rota.store.open import open_store
from rota.worker.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.api.app import Api
    from rota.settings import Settings
    from rota.store.store import Store

HANDSHAKE_WITHIN = HEADERS_WITHIN = 10.0
LARGEST_INCOMPLETE = 32 * 1024  # bytes of a request's head, a chunk's head or trailers
UNREAD_FOR_MS = 60_000
UNREAD_BYTES = 32 * 1024
MOST_IDLE = 2000  # Above the backlog: a whole backlog may be accepted before its first connection is read.
KEEP_ALIVE, GRACE = 15, 3
MOST_AT_ONCE, BACKLOG = 4000, 1024
DESCRIPTORS = MOST_AT_ONCE + MOST_IDLE + 1000
SWITCH_EVERY = 0.0005
# Addresses that mean every interface, and the one that clients on this machine use instead.
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - refused without a token


def serve(settings: Settings, announce: Callable[[str], None], frame_fd: int | None = None) -> int:
    """Serve until SIGINT or SIGTERM.

    Args:
        settings: Where to listen, and the database to serve.
        announce: Gets the address, and the link for a browser as lines of text.
        frame_fd: The pipe to the orchestrator that supervises this process. Its log is kept, so it gets no link.
    """
    with open_store(settings.db, settings, told=announce) as store:
        if store.link is not None:
            raise BadInput("this serves a database, and an HTTP API was named: do it where the database is")
        database, beside = store.database.url, store.database.beside
        _refuse_open_door(store, settings)
        token, secret = local_token(store)
    settings = settings.replace(db=database)
    with _bound(settings) as listening:
        api = create(database, settings, hosts_of(settings), secret.encode())
        url = _url(settings, listening)
        for number in (signal.SIGINT, signal.SIGTERM):  # until uvicorn handles them
            signal.signal(number, lambda *_: sys.exit(0))
        with address_file(beside, url):
            announce(f"rota answers at {url}")
            if frame_fd is None:
                code = api.new_code(token.id, time.time())
                announce(f"open it in a browser within a minute: {url}/open?code={code}")
            _run(api, settings, listening, frame_fd)
    return 0


def main() -> int:
    """Run `python -m rota.api`, with the settings of the environment and the nearest `rota.toml`."""
    frame_fd = os.environ.get("ROTA_FRAME_FD")
    try:
        return serve(load(), _print_error, int(frame_fd) if frame_fd else None)
    except RotaError as problem:
        print(f"rota: {problem}", file=sys.stderr)
        return problem.exit_code


def _print_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def hosts_of(settings: Settings) -> list[str]:
    """Return the accepted Host names: loopback, the address to listen on, and the setting `http_hosts`."""
    extra = [host.strip() for host in settings.http_hosts.split(",") if host.strip()]
    address = [] if settings.http_host in _ANYWHERE else [settings.http_host]
    return [*LOOPBACK, *address, *extra]


def _refuse_open_door(store: Store, settings: Settings) -> None:
    """Refuse to listen on other interfaces than loopback before there is an access token."""
    if is_loopback(settings.http_host):
        return
    usable = [token for token in store.tokens.list() if token.revoked_at is None and not is_local(token.name)]
    if not usable:
        raise Refused(
            f"{settings.http_host} can be reached from other machines, and there is no access token: make one with "
            "`rota token create NAME --scope read`, or listen on 127.0.0.1"
        )


@contextmanager
def _bound(settings: Settings) -> Iterator[socket.socket]:
    host, port = settings.http_host, settings.http_port
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listening = socket.socket(family, kind)
    except OSError as problem:
        raise Refused(f"{host} is not an address to listen on: {problem.strerror}") from None
    with listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError as problem:
            program = holder(host, port)
            by = f", taken by {program}" if program is not None else ""
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
        http=BoundedH11,
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
    # The loop releases the GIL with every system call. A short interval makes computing threads return it soon.
    sys.setswitchinterval(SWITCH_EVERY)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        server = _Server(config, api)
        if frame_fd is not None:
            server.supervision = _Supervision(frame_fd, settings.frame_interval / SECOND, server.stop)
        runner.run(server.serve([listening]))


def _keep_memory_together() -> None:
    """Let all threads share one malloc arena (glibc only): the GIL serialises them, and each arena costs megabytes."""
    arena_max = -8
    try:
        ctypes.CDLL(None).mallopt(arena_max, 1)
    except (AttributeError, OSError):
        pass


def _allow_descriptors() -> None:
    """Raise the limit on open files: the usual 1024 is far below the limits on connections."""
    allowed, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(allowed, DESCRIPTORS if ceiling == resource.RLIM_INFINITY else min(DESCRIPTORS, ceiling))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, ceiling))
    BoundedH11.most_idle = min(MOST_IDLE, limit // 2)


class _Server(uvicorn.Server):
    """Exits without a traceback at a signal, and ends streams first, because they never end by themselves."""

    def __init__(self, config: uvicorn.Config, api: Api) -> None:
        super().__init__(config)
        self._api = api
        self.supervision: _Supervision | None = None

    def stop(self) -> None:
        """Ask the server to shut down."""
        self.should_exit = True

    async def startup(self, sockets: Any = None) -> None:
        if self.config.ssl is not None:  # uvicorn has no setting for it, and asyncio's default is a minute.
            loop: Any = asyncio.get_running_loop()
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HANDSHAKE_WITHIN)
        await super().startup(sockets)
        if self.supervision is not None:
            self.supervision.begin()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def shutdown(self, sockets: Any = None) -> None:
        if self.supervision is not None:
            self.supervision.end()
        await self._api.end_streams()
        await super().shutdown(sockets)


class _Supervision:
    """The pipe to the orchestrator that supervises this process: heartbeats as frames, as a worker sends them.

    `stop` is called when the orchestrator asks for it or has closed the pipe.
    """

    def __init__(self, descriptor: int, every: float, stop: Callable[[], None]) -> None:
        pipe = socket.socket(fileno=descriptor)
        pipe.setblocking(False)
        pipe.set_inheritable(False)
        self._channel = Channel(pipe)
        self._every = every
        self._stop = stop
        self._next: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start heartbeats. Called in the event loop once requests are answered, so that they show that it turns."""
        asyncio.get_running_loop().add_reader(self._channel.fileno(), self._receive)
        self._send_heartbeat()

    def end(self) -> None:
        """Report that the process is stopping, and send nothing more."""
        asyncio.get_running_loop().remove_reader(self._channel.fileno())
        if self._next is not None:
            self._next.cancel()
        self._channel.report(frames.HEALTH, {"status": "stopping"})

    def _send_heartbeat(self) -> None:
        self._channel.report(frames.HEALTH, {"status": "healthy"})
        self._next = asyncio.get_running_loop().call_later(self._every, self._send_heartbeat)

    def _receive(self) -> None:
        received = self._channel.receive()
        if not self._channel.is_open:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
        if not self._channel.is_open or any(frame.kind == frames.STOP for frame in received):
            self._stop()


class BoundedH11(H11Protocol):
    """Closes a connection whose headers take too long, or that reads nothing for a minute.

    Of the connections without a complete request, the oldest are closed for new ones, so that nobody can exhaust the
    limit by holding many. h11 bounds what it buffers; httptools does not (decision 17).
    """

    most_idle: ClassVar = MOST_IDLE
    _idle: ClassVar[dict[BoundedH11, None]] = {}  # oldest first
    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._mark_idle()
        transport.set_write_buffer_limits(high=UNREAD_BYTES)
        peer = transport.get_extra_info("socket")
        if peer is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_FOR_MS)
        if peer is not None and hasattr(
            socket, "TCP_NOTSENT_LOWAT"
        ):  # Otherwise the kernel buffers megabytes per connection.
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNREAD_BYTES)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        self._expect_headers()
        super().data_received(data)
        if self._has_request():
            if not self.cycle.more_body:
                self._idle.pop(self, None)
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._has_request() or self.cycle.more_body:  # Otherwise the next request has arrived already.
            self._mark_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.pop(self, None)
        if self._header_timer is not None:
            self._header_timer.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # A response has begun.
            self.transport.close()

    def _mark_idle(self) -> None:
        self._idle.pop(self, None)
        self._idle[self] = None
        if len(self._idle) > self.most_idle:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.transport.abort()  # without sending what it has not read

    def _expect_headers(self) -> None:
        if self._header_timer is None and not self._has_request():
            self._header_timer = self.loop.call_later(HEADERS_WITHIN, self._close_if_late)

    def _has_request(self) -> bool:
        # uvicorn sets `cycle` to None before the first request, though its annotation says otherwise.
        return not getattr(self.cycle, "response_complete", True)

    def _close_if_late(self) -> None:
        self._header_timer = None
        if not self._has_request():
            self.transport.close()
