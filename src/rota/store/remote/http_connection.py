"""One connection to an HTTP API: where it is, a request out, and the answer as it comes.

`http.client` alone takes longer to import than a whole heartbeat over HTTP, so the part of HTTP/1.1 that the API and
a proxy before it use is written here; `ssl` is loaded for https only (decision 20).
"""

from __future__ import annotations

import os
import select
from _socket import AF_INET6, SOCK_STREAM, getaddrinfo, socket

from rota.core.errors import BadInput
from rota.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class Channel(Protocol):
        def sendall(self, data: bytes, /) -> None: ...

        def recv(self, size: int, /) -> bytes: ...

        def settimeout(self, seconds: float | None, /) -> None: ...

        def fileno(self) -> int: ...

        def close(self) -> None: ...


PORT = 8356
CONNECT_WITHIN, ANSWER_WITHIN = 10.0, 60.0
LARGEST_HEAD, PIECE = 64 * 1024, 64 * 1024


class Address(Record):
    """Where an API is, and the token that opens it. `shown` is for people: without the token."""

    secure: bool
    host: str
    port: int
    base: str
    token: str | None
    shown: str


def address_of(url: str, token: str | None = None) -> Address:
    """Parse a URL such as `http://host:8356`.

    Args:
        url: The URL. A token in its user part takes precedence over `token`.
        token: The access token, if the URL has none.

    Raises:
        BadInput: The URL or the token is malformed.
    """
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    user, _, place = authority.rpartition("@")
    host, port = _split(place)
    shown = f"{scheme}://{place}" + (f"/{path.strip('/')}" if path.strip("/") else "")
    right = "write for example http://127.0.0.1:8356 or https://rota.example.org"
    if not host or not all("!" <= letter <= "~" for letter in place + path) or "?" in path or "#" in path:
        raise BadInput(f"{shown!r} is not the address of an HTTP API: {right}")
    if port and not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
        raise BadInput(f"{port!r} in {shown!r} is not a port: {right}")
    secret = user.partition(":")[0] or token
    if secret is not None and not all("!" <= letter <= "~" for letter in secret):
        raise BadInput("ROTA_TOKEN is not an access token: `rota token create` prints one")
    number = int(port) if port else 443 if scheme == "https" else PORT
    return Address(scheme == "https", host, number, f"/{path.strip('/')}".rstrip("/") + "/api/v1", secret, shown)


def _split(place: str) -> tuple[str, str]:
    if place.startswith("["):
        host, _, port = place[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = place.partition(":")
    return host, port


class Connection:
    """One connection: `send` a request, then read the `status`, `headers` and `pieces` of its answer."""

    def __init__(self, address: Address, within: float = ANSWER_WITHIN) -> None:
        self._address = address
        self._rest = b""
        self.pid = os.getpid()
        self.is_over = False
        self.is_whole = True  # nothing of an answer is left unread
        self.status = 0
        self.headers: dict[str, str] = {}
        self._channel = _connect(address, min(within, CONNECT_WITHIN))
        self._channel.settimeout(within)

    def send(self, method: str, path: str, data: bytes | None, last_id: str | None = None) -> None:
        """Send a request, and read the head of its answer."""
        here = self._address
        host = f"[{here.host}]" if ":" in here.host else here.host
        lines = [f"{method} {here.base}{path} HTTP/1.1", f"Host: {host}:{here.port}", "Accept: */*"]
        if here.token is not None:
            lines.append(f"Authorization: Bearer {here.token}")
        if last_id is not None:
            lines.append(f"Last-Event-ID: {last_id}")
        if data is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        self.is_whole = False
        self._channel.sendall("\r\n".join([*lines, "", ""]).encode() + (data or b""))
        self._read_head()

    def pieces(self) -> Iterator[bytes]:
        """Yield the body of the answer as it arrives."""
        length = self.headers.get("content-length")
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif length is not None:
            yield self._take(_size(length))
        else:
            self.is_over = True
            yield from iter(self._more, b"")
        self.is_whole = True

    def has_ended(self) -> bool:
        """Return whether the other side has closed it. Between requests, nothing else makes it readable."""
        return bool(select.select([self._channel.fileno()], [], [], 0)[0])

    def fileno(self) -> int:
        return self._channel.fileno()

    def drain(self) -> bool:
        """Discard what has arrived, without waiting. False when the other side has closed it."""
        while select.select([self._channel.fileno()], [], [], 0)[0]:
            if not self._channel.recv(PIECE):
                return False
        return True

    def close(self) -> None:
        self._channel.close()

    def _read_head(self) -> None:
        while b"\r\n\r\n" not in self._rest:
            if len(self._rest) > LARGEST_HEAD:
                raise ValueError("an answer with too long a head")
            self._rest += self._must()
        head, self._rest = self._rest.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdigit():
            raise ValueError("an answer that is not HTTP")
        self.status = int(status[:3])
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self.is_over = version == "HTTP/1.0" or self.headers.get("connection", "").lower() == "close"

    def _chunks(self) -> Iterator[bytes]:
        while size := _size(self._line().partition(b";")[0].decode("latin-1"), 16):
            yield self._take(size)
            self._line()
        while self._line():
            pass

    def _line(self) -> bytes:
        while b"\r\n" not in self._rest:
            if len(self._rest) > LARGEST_HEAD:
                raise ValueError("an answer with too long a line")
            self._rest += self._must()
        line, self._rest = self._rest.split(b"\r\n", 1)
        return line

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += self._must()
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _more(self) -> bytes:
        piece, self._rest = self._rest or self._channel.recv(PIECE), b""
        return piece

    def _must(self) -> bytes:
        if piece := self._channel.recv(PIECE):
            return piece
        raise ConnectionResetError("it was closed")


def _size(text: str, base: int = 10) -> int:
    """Parse the number of bytes that follow."""
    size = int(text, base)
    if size < 0:
        raise ValueError(f"an answer of {size} bytes")
    return size


def _connect(address: Address, within: float) -> Channel:
    """Connect to the first of the host's addresses that answers."""
    problem: OSError = ConnectionRefusedError("the name has no address")
    # A `str` would be encoded by the codec of international names, which takes time to import.
    name = address.host.encode()
    for family, kind, protocol, _, place in getaddrinfo(name, address.port, 0, SOCK_STREAM):
        channel = socket(family, kind, protocol)
        try:
            channel.settimeout(within)
            channel.connect(place[:4] if family == AF_INET6 else place[:2])
            return _secured(channel, address.host) if address.secure else channel
        except OSError as error:
            channel.close()
            problem = error
    raise problem


def _secured(channel: socket, host: str) -> Channel:
    """Encrypt a connection once the other side has proved to be this host. SSL_CERT_FILE names further authorities."""
    import socket as sockets
    import ssl

    whole = sockets.socket(fileno=channel.detach())
    whole.settimeout(CONNECT_WITHIN)
    return ssl.create_default_context().wrap_socket(whole, server_hostname=host)
