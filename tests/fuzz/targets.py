"""Everything that rota parses, as functions of one text or of bytes: each answers, or raises an error of ours."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rota import settings
from rota.api.app import ROUTES
from rota.cli import parser
from rota.cli.verbs import all_verbs
from rota.core import ids, jsontext, queue, schedule, source, times, topic
from rota.core.errors import RotaError
from rota.core.frames import codec as frames
from rota.core.frames import messages, outcomes
from rota.core.schedule import NewSchedule
from rota.store import open as opening
from rota.store.postgres import connection as postgres_link
from rota.store.postgres import database as postgres_log
from rota.store.remote import client, http_connection, records
from rota.store.remote.client import Link
from rota.store.sqlite import event_log as sqlite_log
from rota.worker import template

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_800_000_000_000_000
VERBS = all_verbs()
REQUESTS = sorted(
    {each for route in ROUTES for each in (route.body, route.query) if each}, key=lambda each: each.__name__
)


def refuses(call: Callable[[], object]) -> bool:
    """Whether it was refused with an error of ours; any other error leaves."""
    try:
        call()
    except RotaError as problem:
        assert str(problem).strip(), "an error that says nothing"
        return True
    return False


def environment(text: str) -> None:
    """Each setting from a variable of the environment."""
    for name in settings.MEANINGS:
        refuses(lambda name=name: settings.load({}, {f"ROTA_{name.upper()}": text}, os.sep))  # type: ignore[misc]


def settings_file(text: str) -> None:
    """A file of settings; the plain reader takes nothing that TOML reads otherwise."""
    for file in ("rota.toml", "pyproject.toml"):
        path = Path(_folder()) / file
        path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        refuses(lambda: settings.load({}, {}, _folder()))
        path.unlink()
    try:
        plain = settings._plain(text)
    except ValueError:
        return
    if plain:
        assert plain == settings._toml(text), "the plain reader reads it otherwise"


def command_line(text: str) -> None:
    """The words of every command."""
    words = [word for word in text.split("\n") if word != "-" and "\0" not in word and not word.startswith("@")]
    for verb in VERBS:
        refuses(lambda verb=verb: parser.values(verb, parser.split(verb, words), {}))  # type: ignore[misc]


def problem_document(text: str) -> None:
    """What an API, or something in front of it, answers."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = {"type": text, "status": 400, "code": "x", "detail": text}
    assert isinstance(client.error_of(document), RotaError)


def frame_bytes(data: bytes) -> None:
    """What a worker writes on its pipe, and all that is made of it."""
    decoder = frames.Decoder()
    found = [*decoder.feed(data[: len(data) // 2]), *decoder.feed(data[len(data) // 2 :]), *decoder.feed(b"\n")]
    for each in found:
        assert frames.parse(frames.encode(each.kind, each.body).rstrip(b"\n")) == each, "written, it reads otherwise"
        body_of_a_frame(each.body)


def body_of_a_frame(body: dict[str, Any]) -> None:
    outcome = outcomes.decode(body)
    told = frames.parse(outcomes.done_frame(1, 2, outcome).rstrip(b"\n"))
    assert told is not None and outcomes.decode(told.body) == outcome, "an outcome that is told otherwise"
    for read in (
        messages.concurrency,
        messages.tokens,
        messages.recovery_seconds,
        messages.progress,
        messages.metrics,
        messages.checkpoint,
    ):
        read(body)
    messages.kinds(body.get("kinds"))
    for each in schedule.from_hello(body):
        refuses(lambda each=each: schedule.checked(each, NOW))  # type: ignore[misc]
    source.from_hello(body)
    source.vectorizers(body)


def frame_of_a_size(data: bytes) -> None:
    """A frame about as long as one may be, in pieces: read up to its limit, counted beyond it, and the next is read."""
    numbers = [*data[:4], 0, 0, 0, 0]
    kind = (frames.LOG, frames.DONE)[numbers[0] % 2]
    limit = frames.LARGEST_REPORT if kind in frames.DROPPABLE else frames.LARGEST
    room = limit + numbers[1] % 9 - 4 - len(frames.encode(kind, {"error": ""}).rstrip(b"\n"))
    line = frames.encode(kind, {"error": "x" * room})
    decoder, piece = frames.Decoder(), 64 + (numbers[2] * 256 + numbers[3]) * 16
    found = [each for at in range(0, len(line), piece) for each in decoder.feed(line[at : at + piece])]
    found += decoder.feed(frames.encode(frames.HEALTH, {"status": "healthy"}) + data[4:] + b"\n")
    fits = len(line) - 1 <= limit
    assert [each.kind for each in found[: 1 + fits]] == [kind] * fits + [frames.HEALTH]
    assert decoder.rubbish >= (not fits) and (fits or found[0].kind == frames.HEALTH)


class Answering:
    """A server on this host that answers every request with the same bytes, and closes."""

    def __init__(self) -> None:
        self.says = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.link = Link(http_connection.address_of(f"http://127.0.0.1:{self._listening.getsockname()[1]}"))
        self.link.within = 5.0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            caller, _ = self._listening.accept()
            with caller, suppress(OSError):  # who has heard enough is gone
                caller.recv(4096)
                caller.sendall(self.says)


@cache
def _answering() -> Answering:
    return Answering()


def answer_bytes(data: bytes) -> None:
    """What an API, or something in front of it, answers, from its head on; then as the document that it brings."""
    server = _answering()
    server.says = data
    found: list[Any] = []
    refuses(lambda: found.append(server.link.get("/info")))
    server.link.close()
    for document in found:
        document_of_the_api(document)


def document_of_the_api(document: Any) -> None:
    """All that is made of what an API answers."""
    for read in (records.job, records.claim, records.run, records.worker):
        refuses(lambda read=read: read(document))  # type: ignore[misc]
    for kind in records.machine_records().values():
        refuses(lambda kind=kind: records.from_document(kind, document))  # type: ignore[misc]


def document_bytes(data: bytes) -> None:
    try:
        document = jsontext.decode(data.decode())
    except (ValueError, RecursionError):
        return
    document_of_the_api(document)


def request_bytes(data: bytes) -> None:
    """A body that a caller of the API sends; what is read is written and read again alike."""
    for kind in REQUESTS:
        try:
            value = msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value, "written, it reads otherwise"


def instant(text: str) -> None:
    found = times.parse_instant(text, NOW)
    if 0 <= found < 253_402_300_800_000_000:
        assert (
            times.parse_instant(times.format_instant(found), 0)
            == times.instant_of(times.format_instant(found))
            == found
        )


def duration(text: str) -> None:
    for bare in (None, times.MINUTE):
        refuses(lambda bare=bare: times.format_duration(times.parse_duration(text, bare)))  # type: ignore[misc]


def run_id(text: str) -> None:
    assert ids.token_of(ids.run_id(ids.token_of(text))) == ids.token_of(text)


@cache
def _folder() -> str:
    return tempfile.mkdtemp(prefix="rota-fuzz-")


TEXTS: dict[str, Callable[[str], object]] = {
    "duration": duration,
    "instant": instant,
    "rate": queue.parse_rate,
    "cron": lambda text: schedule.checked(NewSchedule("nightly", text), NOW),
    "time zone": lambda text: schedule.following("0 2 * * *", text, NOW),
    "queue name": ids.queue_name,
    "job id": ids.job_id,
    "run id": run_id,
    "topic": lambda text: topic.matches(topic.checked([text])[0], "queue:tag:status"),
    "template": lambda text: template.parse(text.split("\n")),
    "database": opening.path_of,
    "postgres url": lambda text: postgres_link.address("postgresql://" + text),
    "http url": lambda text: http_connection.address_of("http://" + text),
    "sqlite cursor": sqlite_log._number,
    "postgres cursor": postgres_log._parts,
    "environment": environment,
    "settings file": settings_file,
    "command line": command_line,
    "problem document": problem_document,
}
RIGHT = {
    "duration": "1h30m",
    "instant": "2026-12-01T09:00Z",
    "rate": "10/m",
    "cron": "*/5 9-17 * JAN-MAR MON#1",
    "time zone": "UTC",
    "queue name": "tag",
    "job id": "17",
    "run id": "run-0000002s",
    "topic": "queue:*:status",
    "template": "convert\n{payload.path}\n{title}",
    "database": "sqlite:///a/rota.db",
    "postgres url": "user:secret@host:5432/shop?schema=work&sslmode=require",
    "http url": "token@127.0.0.1:8356/rota",
    "sqlite cursor": "17",
    "postgres cursor": "10:20:11,13",
    "environment": "30m",
    "settings file": 'lease = "30m"\nmax_attempts = 5\n\n[pools]\ntag = 2\n',
    "command line": "title\n--priority\n5\n--json",
    "problem document": '{"type": "urn:rota:not-found", "status": 404, "code": 3, "detail": "there is no job 5"}',
}
RIGHT_BYTES = {
    "frame": b'DONE|{"job":1,"token":2,"outcome":"failed","error":"x","again":false}\n',
    "frame of a size": b"\1\4\20\0" + b"HEALTH|{}",
    "answer": b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"id":7}',
    "document": b'{"id": 7, "after": [], "created_at": "2026-12-01T09:00:00Z", "details": {"timeout": 1.5}}',
    "request": b'{"title": "a job", "after": [1], "at": "+30m", "payload": {"a": [1.5, null]}}',
}
BYTES: dict[str, Callable[[bytes], object]] = {
    "frame": frame_bytes,
    "frame of a size": frame_of_a_size,
    "answer": answer_bytes,
    "document": document_bytes,
    "request": request_bytes,
}
