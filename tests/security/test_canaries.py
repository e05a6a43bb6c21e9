"""Secrets that pass through rota are left nowhere: not in logs, events, captures, certificates or the database."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import httpx
import psycopg
import pytest

from rota.core.job import NewJob
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.postgres import with_parts
from tests.support.shell import ROTA, Shell, environment
from tests.support.stores import STORES, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CANARY, PASSWORD, TRACKED, GUESSED = "canary-4f7d1c9e", "canary-b1e2a7c3", "canary-90cd4e17", "canary-6a35fb08"
FEEDS = ["queue:*", "worker:*", "system:*"]
UNASKED = ("/open", "/assets/{file}", "/api/v1/events")  # asked in other ways
SHOWN = ("list", "show 1", "events", "doctor", "orchestrator status --json", "worker list --all", "logs 1")
TASKS = '''
@app.command(queue="tag", argv=["sh", "-c", "test -n $CANARY && echo said; echo warned >&2; exit $0", "{payload.code}"])
def speak(code: str) -> None: ...


@app.command(queue="far", argv=["sh", "-c", "echo said from afar"])
def call() -> None: ...


@app.task(queue="tag")
def needs() -> int:
    """Fails with the secret in a local variable, as a handler does that uses one."""
    secret = os.environ["CANARY"]
    return len(secret) // 0
'''


@pytest.fixture(params=STORES)
def crew(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    where = {"ROTA_TRACKING": f"postgresql://me:{TRACKED}@127.0.0.1:1/nowhere"}
    with ExitStack() as logins:
        if request.param == "postgres":
            own = url_of("postgres", tmp_path)
            where = {
                "ROTA_DB": logins.enter_context(with_password(own, PASSWORD)),
                "ROTA_TRACKING": logins.enter_context(with_password(own.partition("?")[0], TRACKED)),
            }
        made = Crew(tmp_path, CANARY=CANARY, ROTA_RESTART_BACKOFF="50ms", ROTA_HTTP_PORT="0", **where)
        made.teach(TASKS)
        yield made
        made.end()


@contextmanager
def with_password(url: str, password: str) -> Iterator[str]:
    """The same database for a login with this password, whose tables are those of the user in `url`."""
    place, _, schema = url.partition("?")
    known = psycopg.conninfo.conninfo_to_dict(place)
    name, user = f"canary_{uuid4().hex}", psycopg.sql.Identifier(str(known["user"]))
    login = psycopg.sql.Identifier(name)
    with psycopg.connect(place, autocommit=True) as connection:
        told = psycopg.sql.Literal(password)
        connection.execute(psycopg.sql.SQL("CREATE ROLE {} SUPERUSER LOGIN PASSWORD {}").format(login, told))
        connection.execute(psycopg.sql.SQL("ALTER ROLE {} SET role TO {}").format(login, user))
        try:
            yield with_parts(place, user=name, password=password) + (f"?{schema}" if schema else "")
        finally:
            connection.execute(psycopg.sql.SQL("DROP ROLE {}").format(login))


def left(crew: Crew) -> dict[str, bytes]:
    """Everything that the crew wrote, by its place: each file, and each table of a database elsewhere."""
    found = {
        str(path): path.read_bytes() for path in crew.folder.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    if url := crew.env.get("ROTA_DB"):
        with psycopg.connect(url.partition("?")[0]) as connection:
            schema = url.partition("schema=")[2].partition("&")[0]
            rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
            assert rows, url
            for (table,) in rows:
                text = connection.execute(f'SELECT t::text FROM "{schema}"."{table}" AS t').fetchall()
                found[table] = repr(text).encode()
    return found


@contextmanager
def going_on(deed: Callable[[], None]) -> Iterator[None]:
    """What is done beside, over and over, until the block ends."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(0.1):
            deed()

    beside = threading.Thread(target=go_on)
    beside.start()
    try:
        yield
    finally:
        over.set()
        beside.join()


def note_arguments(seen: set[bytes]) -> None:
    """Add how each process of this machine was called."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            seen.add(Path(f"/proc/{name}/cmdline").read_bytes())
        except OSError:  # it has ended
            pass


def hear(api: httpx.Client, heard: list[str]) -> None:
    """Take in the live feed until the server goes."""
    try:
        with api.stream("GET", "/api/v1/events", params={"topics": FEEDS}, timeout=None) as stream:
            heard += stream.iter_lines()
    except httpx.TransportError:
        pass


def answers(api: httpx.Client, **named: str) -> list[str]:
    """What the API says to each question that it knows, about these where a path names one of its noun."""
    described = api.get("/api/v1/openapi.json").json()["paths"]
    asked = [path for path, verbs in described.items() if "get" in verbs and path not in UNASKED]
    told = [api.get(re.sub(r"(\w+)/{\w+}", lambda at: f"{at[1]}/{named.get(at[1], 'none')}", path)) for path in asked]
    refused = [str(each.url) for each in told if each.is_error]
    assert len(told) > 35 and len(refused) < 6, (
        refused
    )  # there is no source, nothing is tracked, and a crew's own link is its own
    return [each.text for each in told]


def begin_session(api: httpx.Client) -> tuple[str, str]:
    """A one-time code, and the session that it was good for, once."""
    code = api.post("/api/v1/codes", json={}).json()["code"]
    with httpx.Client(base_url=api.base_url) as browser:
        browser.get("/open", params={"code": code})
        session = browser.cookies["rota_session"]
        assert browser.get("/").status_code == 200
        assert browser.get("/open", params={"code": code}).status_code == 401
    return code, session


def guess(api: httpx.Client) -> None:
    """Try to get in with what is no token, no session and no code."""
    for headers in ({"Authorization": f"Bearer {GUESSED}"}, {"Cookie": f"rota_session={GUESSED}"}):
        assert httpx.get(f"{api.base_url}/api/v1/jobs", headers=headers).status_code == 401
    assert httpx.get(f"{api.base_url}/open", params={"code": GUESSED}).status_code == 401


def work(crew: Crew) -> tuple[int, str]:
    """Jobs that go well, fail, are called off and kill their workers, here and afar; one that failed, one that died."""
    crew.done(crew.add("speak", code="0"), crew.app.enqueue(NewJob("call", queue="far", kind="call")).id)
    lost = crew.app.enqueue(NewJob("die", queue="far", kind="die")).id
    failed = [crew.add("needs"), crew.add("speak", code="3"), crew.add("die"), lost]
    eventually(lambda: all(crew.app.jobs.get(id).attempts for id in failed))
    eventually(lambda: len(crew.deaths()) > 1)
    crew.call("cancel", str(crew.add("hold", name="x")))
    workers = crew.app.workers.list(gone_too=True)
    return failed[0], next(each.id for each in workers if crew.app.workers.certificate(each.id))


@pytest.mark.crew
def test_no_secret_is_left_anywhere_nor_told_to_anyone(crew: Crew) -> None:
    """Of the environment, a database's URL, the tracking's, the API's tokens, a session's, or of one who guesses."""
    arguments: set[bytes] = set()
    heard: list[str] = []
    with going_on(lambda: note_arguments(arguments)):
        crew.start("tag=2", http=True)
        with crew.api() as api:
            feed = threading.Thread(target=hear, args=(api, heard))
            feed.start()
            lent = api.post("/api/v1/tokens", json={"name": "far", "scopes": ["work"]}).json()["secret"]
            far = crew.start_beside(1, "far", ROTA_DB=str(api.base_url).replace("://", f"://{lent}@"))
            failed, dead = work(crew)
            code, session = begin_session(api)
            guess(api)
            run = crew.app.claims.runs(1)[0].id
            said = answers(api, jobs="1", workers=dead, runs=run, queues="tag", slots="worker:tag:0")
            said += [crew.call(*words.split()) for words in (*SHOWN, f"show {failed}")]
            far.terminate()
            far.wait(60)
            crew.stop()
            feed.join()
    kept, secret = left(crew), next(iter(crew.folder.rglob("*.token"))).read_text().strip()
    for fact in (b"said", b"said from afar", b"rota answers at"):
        assert any(fact in text for text in kept.values()), "the output itself is kept"
    assert any("worker:far:0:status" in line for line in heard) and any(b"rota.worker" in words for words in arguments)
    for canary in (CANARY, PASSWORD, TRACKED, GUESSED, secret, lent, code, session):
        assert not [text for text in (*said, *heard) if canary in text]
        assert not [words for words in arguments if canary.encode() in words]
        places = [place for place, text in kept.items() if canary.encode() in text]
        assert not [place for place in places if not place.endswith(".token")], canary


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@127.0.0.1:1/rota",
        f"postgresql://me:{PASSWORD}@nowhere.invalid/rota",
        f"postgresql://me:{PASSWORD}@127.0.0.1:port/rota",
        f"postgresql://me:{PASSWORD}@127.0.0.1/rota?schema=A-B",
        f"postgres:/me:{PASSWORD}@127.0.0.1/rota",
        f"http://me:{PASSWORD}@127.0.0.1:1",
        f"mysql://me:{PASSWORD}@127.0.0.1/rota",
    ],
)
@pytest.mark.parametrize("words", [["doctor"], ["orchestrator", "start", "--app", "x:y"]])
def test_what_is_wrong_with_a_url_is_said_without_its_password(url: str, words: list[str], tmp_path: Path) -> None:
    env = environment(ROTA_DB=url, ROTA_TOKEN=CANARY, XDG_RUNTIME_DIR=str(tmp_path))
    answer = subprocess.run(
        [ROTA, *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    said = answer.stdout + answer.stderr
    assert said and "Traceback" not in said
    assert PASSWORD not in said and CANARY not in said


def test_a_token_is_shown_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.make()
    secret = shell.ask("token", "create", "ci", "--scope", "read")["secret"]
    assert secret not in shell.say("token", "list") + shell.say("events")
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
