"""Secrets that pass through rota are left nowhere: not in logs, events, captures, certificates or the database."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.shell import ROTA, Shell, environment
from tests.support.stores import STORES, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CANARY, PASSWORD = "canary-4f7d1c9e", "canary-b1e2a7c3"
TASKS = '''
@app.command(queue="tag", argv=["sh", "-c", "test -n $CANARY && echo said; echo warned >&2; exit $0", "{payload.code}"])
def speak(code: str) -> None: ...


@app.task(queue="tag")
def needs() -> int:
    """Fails with the secret in a local variable, as a handler does that uses one."""
    secret = os.environ["CANARY"]
    return len(secret) // 0
'''


@pytest.fixture(params=STORES)
def crew(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    where = {}
    if request.param == "postgres":
        where["ROTA_DB"] = with_password(url_of("postgres", tmp_path))
    made = Crew(tmp_path, CANARY=CANARY, ROTA_RESTART_BACKOFF="50ms", **where)
    made.teach(TASKS)
    yield made
    made.end()


def with_password(url: str) -> str:
    """The same database with a password, which a server that trusts us does not look at."""
    scheme, _, rest = url.partition("://")
    user, at, place = rest.partition("@")
    assert at and ":" not in user, url
    return f"{scheme}://{user}:{PASSWORD}@{place}"


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


def test_neither_the_environment_nor_a_password_is_left_anywhere(crew: Crew) -> None:
    crew.start("tag=2", http=True)
    eventually(lambda: crew.up(2))
    crew.done(crew.add("speak", code="0"))
    failed = [crew.add("needs"), crew.add("speak", code="3"), crew.add("die")]
    eventually(lambda: all(crew.app.jobs.get(id).attempts for id in failed))
    eventually(crew.deaths)
    crew.call("cancel", str(crew.add("hold", name="x")))
    said = [
        crew.call(*words)
        for words in (
            ["list"],
            ["show", "1"],
            ["events"],
            ["doctor"],
            ["orchestrator", "status", "--json"],
            ["worker", "list", "--all"],
        )
    ]
    said += [crew.call("logs", "1"), crew.call("show", str(failed[0]))]
    crew.stop()
    secret = next(iter(crew.folder.rglob("*.token"))).read_text().strip()
    assert any(b"said" in text for text in left(crew).values()), "the output itself is kept"
    for canary in (CANARY, PASSWORD, secret):
        assert not any(canary in text for text in said)
        places = [place for place, text in left(crew).items() if canary.encode() in text]
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
    shell.say("init")
    secret = shell.ask("token", "create", "ci", "--scope", "read")["secret"]
    assert secret not in shell.say("token", "list") + shell.say("events")
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
