"""Attacks in raw bytes before authentication: endless headers, two lengths, a TLS handshake that stalls."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from rota.api.middleware import LARGEST_HEADERS, MOST_HEADERS
from tests.api.conftest import certificate, server, shared
from tests.api.servers import Server
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["certificate", "server", "shared"]
MEGABYTE = 1024 * 1024
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def connect(server: Server) -> socket.socket:
    host, port = server.url.partition("://")[2].split(":")
    return socket.create_connection((host, int(port)), 30)


def answer(peer: socket.socket) -> bytes:
    """Everything that comes until the server closes the connection."""
    told = b""
    try:
        while piece := peer.recv(65536):
            told += piece
    except ConnectionResetError:
        pass
    return told


def sent_before_it_closed(server: Server, head: bytes, piece: bytes, most: int) -> int:
    """How much of an endless request the server takes before it closes the connection."""
    sent = 0
    with connect(server) as peer:
        try:
            peer.sendall(head)
            while sent < most:
                peer.sendall(piece)
                sent += len(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
    return sent


def memory(server: Server) -> int:
    """The most that the server's process has ever had resident, in bytes."""
    assert server.process is not None
    with open(f"/proc/{server.process.pid}/status") as status:
        (line,) = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def descriptors(server: Server) -> int:
    assert server.process is not None
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


ENDLESS = {
    "many headers": (HEAD, b"".join(b"x-%d: y\r\n" % n for n in range(10_000))),
    "one long header": (HEAD + b"x: ", b"y" * 100_000),
    "a long path": (b"GET /", b"y" * 100_000),
    "folded lines": (HEAD + b"x: y\r\n", b" y\r\n" * 20_000),
    "a chunk's extension": (POST + b"Transfer-Encoding: chunked\r\n\r\n1;", b"y" * 100_000),
    "trailers": (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n" * 20_000),
}


@pytest.mark.parametrize("attack", ENDLESS)
def test_a_request_head_without_end_is_cut_off_before_it_takes_memory(shared: Server, attack: str) -> None:
    before = memory(shared)
    assert sent_before_it_closed(shared, *ENDLESS[attack], most=64 * MEGABYTE) < 32 * MEGABYTE
    assert memory(shared) - before < 16 * MEGABYTE
    assert shared.client().get("/healthz") == {"status": "ok"}


def test_headers_that_arrive_whole_are_bounded_in_bytes_and_number(shared: Server) -> None:
    def status(more: bytes) -> bytes:
        with connect(shared) as peer:
            peer.sendall(HEAD + b"Connection: close\r\n" + more + b"\r\n")
            return answer(peer)[9:12]

    assert status(b"".join(b"x-%d: y\r\n" % n for n in range(MOST_HEADERS - 2))) == b"200"
    assert status(b"".join(b"x-%d: y\r\n" % n for n in range(MOST_HEADERS - 1))) == b"431"
    assert status(b"x: " + b"y" * (LARGEST_HEADERS - 200) + b"\r\n") == b"200"
    assert status(b"x: " + b"y" * LARGEST_HEADERS + b"\r\n") in (b"431", b"400")


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length : 4\r\n",
    ],
)
def test_a_body_with_two_lengths_is_refused_and_the_connection_closed(shared: Server, lengths: bytes) -> None:
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connect(shared) as peer:
        peer.sendall(POST + lengths + b"\r\n0\r\n\r\n" + hidden)
        told = answer(peer)
    assert told.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")) and told.count(b"HTTP/1.1") == 1, told


def test_malformed_requests_leave_nothing_in_the_log(server: Server) -> None:
    before = server.log.read_bytes()
    for request in (
        b"GET\r\n\r\n",
        HEAD + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\nrubbish\r\n\r\n",
        b"\0\r\n\r\n",
    ):
        with connect(server) as peer:
            peer.sendall(request)
            peer.shutdown(socket.SHUT_WR)
            answer(peer)
    assert server.log.read_bytes() == before


IDLE = {
    "nothing": b"",
    "half a head": HEAD,
    "a request that was answered": HEAD + b"\r\n",
    "a body that does not come": POST + b"Content-Length: 100\r\n\r\n{",
    "an upgrade": HEAD + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "a body that is announced": POST + b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n",
}


def test_nobody_keeps_others_out_by_holding_connections(tmp_path: Path) -> None:
    """Neither up to the descriptors that a process has at first, nor up to all that it may have."""
    at_first, most = 96, 320
    change = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({at_first}, {most}))"
    server = Server(tmp_path, change=change)
    try:
        for what, sent in IDLE.items():
            with ExitStack() as held:
                oldest = held.enter_context(connect(server))
                oldest.sendall(sent)
                for _ in range(most + 50):
                    held.enter_context(connect(server)).sendall(sent)
                newest = server.client()
                assert newest.get("/healthz") == {"status": "ok"}, what
                newest.post("/api/v1/jobs", title="A")
                eventually(lambda: descriptors(server) < most * 3 // 4)
                answer(oldest)  # it ends: the oldest made room
    finally:
        server.end()


def test_a_tls_handshake_that_stalls_is_cut_off(tmp_path: Path, certificate: tuple[str, str]) -> None:
    change = "from rota.api import server; server.HANDSHAKE_WITHIN = 0.5"
    server = Server(tmp_path, change=change, ROTA_HTTP_CERT=certificate[0], ROTA_HTTP_KEY=certificate[1])
    try:
        with connect(server) as peer:
            peer.sendall(b"\x16\x03\x01\x02\x00\x01")
            assert answer(peer) == b"", "the server closes it, well before this side's own 30 seconds"
        assert server.client().get("/healthz") == {"status": "ok"}
    finally:
        server.end()


@contextmanager
def recorder(port: int = 0) -> Iterator[tuple[int, list[bytes]]]:
    """Somebody who listens at a port for what was meant for another, and what he hears."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", port)) as listening:

        def hear() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    heard.append(peer.recv(65536))

        thread = threading.Thread(target=hear)
        thread.start()
        yield listening.getsockname()[1], heard
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_the_admins_token_is_sent_to_nobody_but_the_server(tmp_path: Path) -> None:
    """Neither to a proxy nor to whoever listens where a server was killed, and left word of its address."""
    server = Server(tmp_path)
    try:
        with recorder() as (port, heard):
            proxied = server.shell.exporting(http_proxy=f"http://127.0.0.1:{port}", no_proxy="")
            assert proxied.say("open").startswith(f"{server.url}/open?code=")
        assert heard == []
        assert server.process is not None
        server.process.kill()
        server.process.wait()
        with recorder(int(server.url.rpartition(":")[2])) as (_, heard):
            assert "is not running here" in server.shell.refuse("open", code=3)
        assert heard == []
        server.start()
        assert server.shell.say("open").startswith(f"{server.url}/open?code="), "a later one is found again"
    finally:
        server.end()
