"""Another user of the same machine reads nothing of a crew's, writes nothing, and is told so in one line."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.core.errors import StoreError
from rota.process.host import files_of
from tests.api.servers import Server
from tests.support.crews import Crew
from tests.support.postgres import own
from tests.support.shell import Shell, environment
from tests.support.stores import STORES, url_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOBODY = pwd.getpwnam("nobody").pw_uid
COMMAND = """
@app.command(queue="tag", argv=["sh", "-c", "echo said; echo warned >&2"])
def speak() -> None: ...
"""
# Tries to read, write and remove each file that it is given, and says which it could.
TRY = """
import os, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
for path in sys.argv[2:]:
    for name, do in (("read", lambda: open(path, "rb").read(1)), ("write", lambda: open(path, "r+b")),
                     ("list", lambda: os.listdir(path)), ("remove", lambda: os.unlink(path)),
                     ("make", lambda: open(os.path.join(path, "planted"), "x"))):
        try:
            do()
        except OSError:
            continue
        print(name, path)
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with a job and a token."""
    with open_folder() as folder:
        server = Server(folder)
        server.shell.add("A")
        yield server
        server.end()


@pytest.fixture(params=STORES)
def crew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    """A crew in the background with an API and a log, for whom no mask makes the files that it writes private."""
    with open_folder() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
        where = {"ROTA_DB": url_of(request.param, folder)} if request.param == "postgres" else {}
        crew, mask = Crew(folder, ROTA_HTTP_PORT="0", **where), os.umask(0)
        crew.teach(COMMAND)
        try:
            crew.call("orchestrator", "start", "--daemon", "--app", "shop:app", "--pool", "tag=1")
            yield crew
            crew.call("orchestrator", "stop")
        finally:
            os.umask(mask)
            crew.end()


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that everyone may enter."""
    assert os.getuid() == 0, "another user can be tried only by root: run the tests as root, in a container for example"
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def gets_at(paths: Iterable[Path]) -> str:
    """What another user can do with these."""
    words = [sys.executable, "-c", TRY, str(NOBODY), *map(str, paths)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.crew
def test_another_user_gets_at_none_of_the_files_even_where_the_folders_are_open(crew: Crew) -> None:
    crew.done(crew.add("speak"))
    crew.api().close()
    own = Path(crew.app.store.database.beside).parent
    found = {path: path.is_dir() for path in (own, *own.rglob("*"))}
    kinds = {"".join(path.suffixes[-1:]) or path.name for path in found}
    assert kinds >= {".token", ".http", ".log", ".out", ".err"} and (
        kinds >= {".db", ".lock", "runs"} or ".runs" in kinds
    )
    assert gets_at(found) == ""
    for folder in (path for path, is_folder in found.items() if is_folder):
        folder.chmod(0o755)
    assert gets_at(path for path, is_folder in found.items() if not is_folder) == ""
    assert gets_at([own]) == f"list {own}\n", "it was open"


def test_the_test_would_see_what_is_open(server: Server) -> None:
    (server.shell.folder / "open").write_text("x")
    (server.shell.folder / "open").chmod(0o644)
    assert gets_at([server.shell.folder / "open"]).startswith("read ")


# What another user may not be able to read, such as a clone in root's home, is read before.
AS_NOBODY = """
import importlib, os, pkgutil, sys
import rota
for package in ("rota.cli", "rota.core", "rota.store", "rota.orchestrator", "rota.api"):
    for each in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
sys.exit(rota.cli.main.run(sys.argv[2:]))
"""


@pytest.mark.parametrize("words", [["list"], ["add", "B"], ["open"], ["orchestrator", "start"], ["init"]])
def test_another_user_is_refused_in_one_line(server: Server, words: list[str]) -> None:
    command = [sys.executable, "-c", AS_NOBODY, str(NOBODY), *words]
    answer = subprocess.run(
        command, cwd=server.shell.folder, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode != 0 and answer.stdout == ""
    assert answer.stderr.startswith("rota: ") and answer.stderr.count("\n") == 1, answer.stderr
    assert len(server.shell.ask("list")) == 1


@pytest.mark.parametrize("what", ["folder", "link"])
def test_a_folder_that_another_user_put_in_our_place_is_refused(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where every user may write, one may be first at the name that we would take."""
    place, ours = tmp_path / "rota-0", tmp_path / "ours"
    ours.mkdir(mode=0o700)
    if what == "folder":
        place.mkdir()
        os.chown(place, NOBODY, NOBODY)
    else:
        place.symlink_to(ours)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr("rota.process.host.SHARED", str(tmp_path / "rota-"))
    with pytest.raises(StoreError, match="another user's, or a link"):
        files_of("postgresql://somewhere/rota", "token")
    assert list(ours.iterdir()) == []


@pytest.fixture
def below(tmp_path: Path) -> Iterator[Shell]:
    """A folder of ours in one that everyone may write."""
    assert os.getuid() == 0, "another user can be tried only by root: run the tests as root, in a container for example"
    tmp_path.chmod(0o1777)
    (tmp_path / "ours").mkdir()
    yield Shell(tmp_path / "ours")


@pytest.mark.parametrize("file", ["rota.toml", "pyproject.toml"])
def test_settings_of_another_user_are_not_used_wherever_we_are(below: Shell, file: str) -> None:
    """They name the programs and the application that we would run, and the database that our jobs would go to."""
    upper = below.folder.parent
    table = "" if file == "rota.toml" else "[tool.rota]\n"
    (upper / file).write_text(f'{table}db = "theirs.db"\napp = "evil:app"\n')
    os.chown(upper / file, NOBODY, NOBODY)
    for words in (["list"], ["init"], ["add", "A"], ["run"]):
        told = below.refuse(*words, code=2)
        assert f"{upper / file} belongs to another user (uid {NOBODY}), who could choose what you run" in told
    assert list(below.folder.iterdir()) == []
    (below.folder / "rota.toml").write_text("")
    below.say("init")
    assert below.say("list").startswith("no jobs"), "nearer settings of our own count"


def test_a_database_of_another_user_is_not_found_from_a_folder_of_ours(below: Shell) -> None:
    upper = Shell(below.folder.parent)
    upper.make()
    for place in (upper.folder / ".rota", *(upper.folder / ".rota").iterdir()):
        os.chown(place, NOBODY, NOBODY)
    for words in (["list"], ["add", "A"], ["worker", "register", "--name", "A"]):
        assert f"{upper.folder}/.rota belongs to another user" in below.refuse(*words, code=2)
    assert below.ask("list", "--db", str(upper.path)) == [], "where it is named, it is meant"
    below.say("init")
    assert below.ask("list") == []


def test_a_link_of_another_user_to_settings_of_ours_is_not_followed(below: Shell) -> None:
    ours = below.folder / "elsewhere.toml"
    ours.write_text('db = "x.db"\n')
    link = below.folder.parent / "rota.toml"
    link.symlink_to(ours)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert "belongs to another user" in below.refuse("init", code=2)


def test_in_a_folder_of_another_user_his_settings_are_those_that_are_meant(below: Shell) -> None:
    """As in a container, where root works in a folder that is mounted from outside."""
    (below.folder / "rota.toml").write_text('db = "theirs.db"\n')
    for place in (below.folder, below.folder / "rota.toml"):
        os.chown(place, NOBODY, NOBODY)
    below.say("init")
    assert (below.folder / "theirs.db").exists()


def test_a_pipe_in_the_place_of_settings_keeps_nobody_waiting(below: Shell) -> None:
    os.mkfifo(below.folder.parent / "rota.toml")
    assert "rota.toml is not a file" in below.refuse("list", code=2)


@pytest.mark.crew
def test_a_crew_imports_nothing_of_its_own_from_the_folder_that_it_is_started_in(tmp_path: Path) -> None:
    """It may be a shared one, and `python -m` would look there first."""
    crew = Crew(tmp_path, ROTA_HTTP_PORT="0")
    (tmp_path / "rota").mkdir()
    for name in ("rota/__init__.py", "uvicorn.py", "selectors.py", "apsw.py", "socket.py", "json.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    try:
        crew.call("orchestrator", "start", "--daemon", "--app", "shop:app", "--pool", "tag=1")
        crew.done(crew.add("tag", n=1))
        crew.api().close()
        crew.call("orchestrator", "stop")
    finally:
        crew.end()
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


@pytest.mark.postgres
def test_a_server_that_rota_starts_lets_in_nobody_without_its_password() -> None:
    """Every user of the machine reaches its port, and whoever gets in as its superuser runs programs as its user."""
    with own() as server:
        known = psycopg.conninfo.conninfo_to_dict(server.url)
        secret = known.pop("password")
        assert isinstance(secret, str) and secret.encode() not in arguments()
        for guess in ({}, {"password": "postgres"}):
            for user in ("postgres", "nobody"):
                with pytest.raises(psycopg.OperationalError, match="password"):
                    psycopg.connect(**{**known, "user": user, **guess})  # type: ignore[arg-type]


def arguments() -> bytes:
    """How every process of this machine was called."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(file.read_bytes())
    return b"".join(found)
