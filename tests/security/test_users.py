"""Another user of the same machine reads nothing of a crew's, writes nothing, and is told so in one line."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from rota.core.errors import StoreError
from rota.store.host import files_of
from tests.http.servers import Server
from tests.support.crews import Crew
from tests.support.shell import environment
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
for package in ("rota.cli", "rota.core", "rota.store", "rota.orchestrator", "rota.http"):
    for each in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
sys.exit(rota.cli.run(sys.argv[2:]))
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
    monkeypatch.setattr("rota.store.host.SHARED", str(tmp_path / "rota-"))
    with pytest.raises(StoreError, match="another user's, or a link"):
        files_of("postgresql://somewhere/rota", "token")
    assert list(ours.iterdir()) == []
