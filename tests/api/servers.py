"""A real server over a database of its own, and clients with tokens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx

from rota.settings import Settings
from rota.store.open import open_store
from tests.support.eventually import eventually
from tests.support.shell import Shell, environment
from tests.support.stores import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rota.store.store import Store


class Server:
    """`rota serve` in a folder. `change` is Python that runs first, to shorten a wait."""

    def __init__(self, folder: Path, *, change: str = "", log: str = "log", kind: str = "sqlite", **env: str) -> None:
        own = {} if kind == "sqlite" else {"ROTA_DB": url_of(kind, folder), "XDG_RUNTIME_DIR": str(folder)}
        self.shell = Shell(folder, **own)
        self.shell.make()
        self.log = folder / log
        self.url = ""
        self._change = change
        self._env = {"ROTA_HTTP_PORT": "0", **own, **env}
        self._clients: list[httpx.Client] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        code = f"{self._change}\nimport runpy; runpy.run_module('rota.api', run_name='__main__')"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=self.shell.folder,
                env=environment(**self._env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        eventually(self._answers)

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self.log.read_text()
        told = re.search(r"rota answers at (\S+)", self.log.read_text())
        if told is None:
            return False
        self.url = told[1]
        try:
            return httpx.get(f"{self.url}/healthz", verify=False).status_code in (200, 401)
        except httpx.TransportError:
            return False

    @property
    def secret(self) -> str:
        """The admin token beside the database."""
        (file,) = [*self.shell.folder.glob("rota/*.token"), *self.shell.folder.glob(".rota/rota.db.token")]
        return file.read_text().strip()

    def store(self) -> Store:
        return open_store(self.shell.env.get("ROTA_DB", str(self.shell.path)), Settings())

    def token(self, name: str, *scopes: str) -> str:
        """The secret of a new token."""
        with self.store() as store:
            return store.tokens.create(name, scopes)[1]

    def client(self, secret: str | None = None, **headers: str) -> Client:
        """A client with a token; without one, with the admin's."""
        return Client(self, {"Authorization": f"Bearer {secret or self.secret}", **headers})

    def stranger(self, **headers: str) -> Client:
        """A client without a token."""
        return Client(self, headers)

    def http(self, headers: Mapping[str, str]) -> httpx.Client:
        client = httpx.Client(base_url=self.url, headers=dict(headers), timeout=60, verify=False)
        self._clients.append(client)
        return client

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        assert self.process is not None
        for client in self._clients:
            client.close()
        self._clients.clear()
        self.process.terminate()
        return self.process.wait(30)

    def end(self) -> None:
        """Leave nothing behind, whatever the test did."""
        for client in self._clients:
            client.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.shell.end()


class Client:
    """Requests in few words."""

    def __init__(self, server: Server, headers: Mapping[str, str]) -> None:
        self.http = server.http(headers)

    def call(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        """One request, whatever becomes of it; a body goes as JSON."""
        if method in ("GET", "HEAD", "DELETE", "OPTIONS"):
            return self.http.request(method, path, headers=headers)
        return self.http.request(method, path, json={} if body is None else body, headers=headers)

    def get(self, path: str) -> Any:
        return self._good(self.call("GET", path))

    def post(self, path: str, **body: object) -> Any:
        return self._good(self.call("POST", path, body))

    def delete(self, path: str) -> Any:
        return self._good(self.call("DELETE", path))

    def refused(self, status: int, method: str, path: str, body: object = None, **headers: str) -> dict[str, Any]:
        """The problem document of a request that must be refused with this status."""
        answer = self.call(method, path, body, **headers)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem: dict[str, Any] = answer.json()
        assert list(problem) == ["type", "title", "status", "detail", "code"] and problem["status"] == status
        return problem

    def events(self, *topics: str, after: str | None = None) -> Events:
        return Events(self.http, topics, after)

    @staticmethod
    def _good(answer: httpx.Response) -> Any:
        assert answer.status_code == 200, answer.text
        return answer.json()


class Events:
    """A stream of server-sent events, opened when the block begins."""

    def __init__(self, http: httpx.Client, topics: tuple[str, ...], after: str | None) -> None:
        headers = {"Last-Event-ID": after} if after else {}
        self._opening = http.stream("GET", "/api/v1/events", params={"topics": list(topics)}, headers=headers)
        self.last_id: str | None = None

    def __enter__(self) -> Events:
        self.response = self._opening.__enter__()
        assert self.response.status_code == 200, self.response.read()
        assert self.response.headers["content-type"] == "text/event-stream"
        self._lines = self.response.iter_lines()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._opening.__exit__(*problem)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in self._lines:
            if line.startswith("id: "):
                self.last_id = line.removeprefix("id: ")
            elif line.startswith("data: "):
                document: dict[str, Any] = json.loads(line.removeprefix("data: "))
                assert document["id"] == self.last_id
                yield document

    def next(self, **wanted: object) -> dict[str, Any]:
        """The next document with these fields; the ones before it are passed over."""
        for document in self:
            if wanted.items() <= document.items():
                return document
        raise AssertionError(f"the stream ended before {wanted}")

    def each(self, *topics: str) -> list[dict[str, Any]]:
        return next_of_each(iter(self), topics)

    def line(self) -> str:
        return next(self._lines)


def next_of_each(documents: Iterator[dict[str, Any]], topics: Sequence[str]) -> list[dict[str, Any]]:
    """The next document of each of these topics. A state may overtake the move that changed it."""
    found: dict[str, dict[str, Any]] = {}
    while missing := set(topics) - found.keys():
        document = next(documents)
        if document["topic"] in missing:
            found[document["topic"]] = document
    return [found[topic] for topic in topics]
