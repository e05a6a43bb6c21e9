"""Another user of the same machine reads nothing of a crew's, writes nothing, and is told so in one line."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from rota.core.errors import StoreError
from rota.store.host import files_of
from tests.http.servers import Server
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = pwd.getpwnam("nobody").pw_uid
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
    """A server with jobs, a token and captured output, in a folder that everyone may enter."""
    assert os.getuid() == 0, "another user can be tried only by root: run the tests as root, in a container for example"
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = Server(folder)
        server.shell.add("A")
        (folder / ".rota" / "runs").mkdir(mode=0o700, exist_ok=True)
        yield server
        server.end()


def test_another_user_gets_at_none_of_the_files(server: Server) -> None:
    own = server.shell.folder / ".rota"
    files = [str(path) for path in (own, *own.rglob("*"))]
    assert {Path(path).name for path in files} >= {"rota.db", "rota.db.lock", "rota.db.token", "runs"}
    words = [sys.executable, "-c", TRY, str(NOBODY), *files]
    got = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    assert got == ""
    assert server.shell.ask("list")[0]["title"] == "A"


def test_the_test_would_see_what_is_open(server: Server) -> None:
    (server.shell.folder / "open").write_text("x")
    (server.shell.folder / "open").chmod(0o644)
    words = [sys.executable, "-c", TRY, str(NOBODY), str(server.shell.folder / "open")]
    assert subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.startswith("read ")


@pytest.mark.parametrize("words", [["list"], ["add", "B"], ["open"], ["orchestrator", "start"], ["init"]])
def test_another_user_is_refused_in_one_line(server: Server, words: list[str]) -> None:
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", ROTA, *words]
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
