"""Requests to an HTTP API: documents go out, documents come back, and problem documents are raised as errors."""

from __future__ import annotations

import os
import time

from rota.core import errors
from rota.core.errors import BadInput, InDoubt, Refused, RotaError, StoreAway, StoreError
from rota.core.jsontext import decode, encode
from rota.store.remote.http_connection import ANSWER_WITHIN, Connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.store.remote.http_connection import Address
    from rota.store.remote.store import RemoteStore
    from rota.store.store import Store

PATIENCE, FIRST_PAUSE, LONGEST_PAUSE = 20.0, 0.1, 1.0
_BY_CODE: dict[int, type[RotaError]] = {
    kind.exit_code: kind
    for kind in (BadInput, errors.NotFound, errors.Conflict, errors.Stale, errors.Refused, errors.UnknownWorker)
}
_GATEWAY, _TOO_SLOW = (502, 503, 504), 408


class Link:
    """Requests to one API, one after another. A connection that was closed in between is opened again.

    `within` is how many seconds an answer may take.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.within = ANSWER_WITHIN
        self.goes_on = False  # whether the last answer linked to a next page
        self._connection: Connection | None = None

    def get(self, path: str, **query: object) -> Any:
        return self._ask("GET", with_query(path, query), None)

    def post(self, path: str, body: dict[str, Any] | None = None, **query: object) -> Any:
        return self._ask("POST", with_query(path, query), body or {})

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return self._ask(method, path, body)

    def insist(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request that may be repeated, such as a heartbeat or an outcome, until the API answers.

        Raises:
            StoreAway: The API did not answer for `PATIENCE` seconds.
            InDoubt: It broke off its last answer, so the request may have been carried out.
        """
        deadline, pause = time.monotonic() + PATIENCE, FIRST_PAUSE
        while True:
            try:
                return self._ask(method, path, body)
            except (StoreAway, InDoubt):
                if time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)

    def stream(self, path: str, last_id: str | None = None, **query: object) -> Connection:
        """Open a connection of its own whose answer has no end; `pieces` reads it."""
        connection = self._connect()
        try:
            connection.send("GET", with_query(path, query), None, last_id)
            if connection.status != 200:
                self._answer(connection)
        except (OSError, ValueError) as problem:
            connection.close()
            raise self._away(problem) from problem
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        data = None if body is None else encode(body).encode()
        connection = self._connected()
        try:
            connection.send(method, path, data)
            answer = self._answer(connection)
        except (OSError, ValueError) as problem:
            self.close()
            # A read can be repeated; a change may have been made, so it is in doubt (decision 20).
            if method == "GET":
                raise self._away(problem) from problem
            raise InDoubt(
                f"the link to {self.address.shown} broke before its answer came ({_reason(problem)}):"
                " what was asked for may have been done, or not"
            ) from problem
        except BaseException:
            if not connection.is_whole:
                self.close()
            raise
        self.goes_on = "link" in connection.headers
        if connection.is_over:
            self.close()
        return answer

    def _connected(self) -> Connection:
        """Return the kept connection, unless another process opened it or the other side has closed it."""
        kept = self._connection
        if kept is not None and (kept.pid != os.getpid() or kept.is_over or kept.has_ended()):
            self.close()
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Connection:
        try:
            return Connection(self.address, self.within)
        except OSError as problem:
            raise self._away(problem) from problem

    def _away(self, problem: Exception) -> StoreAway:
        return StoreAway(f"{self.address.shown} is out of reach ({_reason(problem)}): nothing was changed")

    def _answer(self, connection: Connection) -> Any:
        text = b"".join(connection.pieces()).decode("utf-8", "replace")
        is_problem = connection.headers.get("content-type", "").startswith("application/problem+json")
        if connection.status != 200 and not is_problem:
            raise self._strange(connection.status)
        try:
            document = decode(text)
        except (ValueError, RecursionError):
            raise self._strange(connection.status) from None
        if connection.status == 200:
            return document
        raise error_of(document)

    def _strange(self, status: int) -> StoreError:
        if status in _GATEWAY:
            return StoreAway(f"{self.address.shown} answers {status}: what is behind it is out of reach")
        return StoreError(f"{self.address.shown} answers {status} and not as rota does: is its address right?")


class Port:
    """A port over the API. What the API does not offer is refused by name."""

    def __init__(self, store: RemoteStore) -> None:
        self._store: Store = store
        self._remote = store

    @property
    def _link(self) -> Link:
        return self._remote.link

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise not_offered(
            f"{type(self).__name__.removeprefix('Remote').lower()}.{name}", self._remote.link.address.shown
        )


def not_offered(what: str, where: str) -> Refused:
    """Return the error for what the API does not offer."""
    return Refused(f"the HTTP API at {where} does not offer {what}: do it where the database is")


def with_query(path: str, query: dict[str, Any]) -> str:
    """Return the path with those parameters of a query that are set."""
    parameters = [f"{name}={_text(value)}" for name, value in query.items() if value is not None and value is not False]
    return f"{path}?{'&'.join(parameters)}" if parameters else path


def quoted(text: str) -> str:
    """Quote a text for use in a path or a query."""
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in text.encode())


def _text(value: object) -> str:
    return "true" if value is True else ",".join(map(quoted, value)) if isinstance(value, tuple) else quoted(str(value))


def error_of(problem: object) -> RotaError:
    """Return the error that a problem document describes. A proxy in front of rota may send other documents."""
    match problem:
        case {"type": str(name), "status": int(status), "code": int(code), "detail": str(detail)} if detail.strip():
            kind = _kind(name)
        case _:
            return StoreError(f"this is not an answer of rota's: is its address right? It says {problem!r:.200}")
    if kind is None and status == 401:
        return errors.Refused(f"{detail}; set ROTA_TOKEN to its secret")
    if status == _TOO_SLOW:
        # The API did not receive the whole request, so it did nothing.
        return StoreAway(detail)
    return (kind or _BY_CODE.get(code, StoreError))(detail)


def _kind(name: str) -> type[RotaError] | None:
    """Return the class of errors that a name such as `urn:rota:not-found` means."""
    kind = getattr(errors, "".join(word.capitalize() for word in name.rpartition(":")[2].split("-")), None)
    return kind if isinstance(kind, type) and issubclass(kind, RotaError) else None


def _reason(problem: Exception) -> str:
    return str(getattr(problem, "strerror", None) or problem)
