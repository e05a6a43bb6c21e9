"""Databases that cannot be used: each is said clearly, and none is replaced by a fresh empty one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import apsw
import pytest

from tests.support.shell import ROTA, Shell, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

VERBS = (["list"], ["add", "B"], ["worker", "register", "--name", "w"], ["claim", "1"])
# Root may write anywhere; without this power it is held to the modes of files like anyone else.
POWERLESS = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"]


def test_a_file_that_is_no_database_is_refused(shell: Shell) -> None:
    shell.path.write_bytes(b"just some text\n" * 500)
    before = shell.path.read_bytes()
    for verb in VERBS:
        assert "is not a SQLite database" in shell.refuse(*verb, code=1)
    assert shell.path.read_bytes() == before


def test_a_damaged_database_is_refused(shell: Shell) -> None:
    shell.add()
    connection = apsw.Connection(str(shell.path))
    connection.execute("SELECT count(*) FROM job").fetchall()
    connection.close()
    assert not shell.path.with_name("rota.db-wal").exists(), "all of it stands in the file itself"
    data = bytearray(shell.path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    shell.path.write_bytes(data)
    for verb in VERBS:
        assert "is damaged" in shell.refuse(*verb, code=1)
    assert shell.path.read_bytes() == bytes(data)


def test_a_database_of_another_program_is_refused(bare: Shell) -> None:
    path = bare.folder / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)")
    connection.close()
    before = path.read_bytes()
    for verb in VERBS:
        assert "is not a rota database but another program's" in bare.refuse(*verb, "--db", str(path), code=1)
    assert path.read_bytes() == before


def test_an_empty_file_is_refused(bare: Shell) -> None:
    path = bare.folder / "empty.db"
    path.touch()
    for verb in VERBS:
        assert "an empty file" in bare.refuse(*verb, "--db", str(path), code=1)
    assert path.stat().st_size == 0


def test_a_pipe_is_no_database(bare: Shell) -> None:
    os.mkfifo(bare.folder / "pipe.db")
    for verb in (*VERBS, ["init"]):
        assert "pipe.db is not a file: give another path with --db" in bare.refuse(*verb, "--db", "pipe.db", code=1)


def test_doctor_misses_a_table_that_another_program_removed(shell: Shell) -> None:
    shell.ask("list")
    for table in ("event", "run"):
        apsw.Connection(str(shell.path)).execute(f"DROP TABLE {table}")
        assert f"without the table{'s' * (table == 'run')} event" in shell.say("doctor", code=1)


def test_a_folder_is_no_database(bare: Shell) -> None:
    (bare.folder / "folder").mkdir()
    for url in ("folder", "sqlite:///folder"):
        message = bare.call("add", "A", "--db", url)
        assert message.returncode in (2, 3) and "folder" in message.stderr and message.stdout == ""
    assert list((bare.folder / "folder").iterdir()) == []


def test_a_rota_folder_that_lost_its_database_is_an_error_and_not_a_fresh_start(shell: Shell) -> None:
    shell.path.unlink()
    for verb in (*VERBS, ["init"]):
        assert "has lost its rota.db" in shell.refuse(*verb, code=1)
    assert not shell.path.exists()


def powerless(shell: Shell, *words: str) -> subprocess.CompletedProcess[str]:
    """A call by a user whom the modes of files bind."""
    command = [*(POWERLESS if os.getuid() == 0 else []), ROTA, *words]
    return subprocess.run(
        command, cwd=shell.folder, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def open_folder() -> Iterator[Shell]:
    """A database in a folder that everyone may enter."""
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shell = Shell(Path(folder))
        shell.say("init")
        yield shell


def test_a_database_that_may_not_be_written_can_be_read_and_is_not_changed(open_folder: Shell) -> None:
    shell = open_folder
    shell.add()
    for file in shell.path.parent.iterdir():
        file.chmod(0o444)
    shell.path.parent.chmod(0o555)
    before = shell.contents()
    assert "Tag" in powerless(shell, "list").stdout and "Tag" in powerless(shell, "show", "1").stdout
    for words in VERBS[1:]:
        answer = powerless(shell, *words)
        assert (answer.returncode, answer.stdout) == (1, ""), (words, answer)
        assert "check" in answer.stderr and "owner and mode" in answer.stderr and "Traceback" not in answer.stderr
    assert shell.contents() == before


def test_a_folder_that_may_not_be_written_is_refused(open_folder: Shell) -> None:
    shell = open_folder
    closed = shell.folder / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    for words in (["init", "--db", "closed/x.db"], ["add", "A", "--db", "closed/x.db"]):
        answer = powerless(shell, *words)
        assert (answer.returncode, answer.stdout) == (1, ""), answer
        assert "cannot be written" in answer.stderr and "Traceback" not in answer.stderr
    assert list(closed.iterdir()) == []
    answer = powerless(Shell(closed), "init", "--json")
    assert (answer.returncode, answer.stdout) == (1, "") and "cannot be written" in answer.stderr
    looked = powerless(Shell(closed.parent / "closed"), "doctor")
    assert looked.returncode == 0 and f"{closed} is not yours to write; go to a folder of yours" in looked.stdout


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB; where none can be mounted the test fails, because the promise would go untested."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_said_clearly_and_works_again_when_there_is_room(small_disk: Path) -> None:
    shell = Shell(small_disk)
    shell.add("Before")
    ballast = small_disk / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    before = shell.contents()
    payload = '"' + "x" * 100_000 + '"'
    assert "is full: nothing was changed; make room and try again" in shell.refuse(
        "add", "B", "--payload", payload, code=1
    )
    assert shell.contents() == before
    assert "the disk is full" in shell.say("doctor", code=1)
    ballast.unlink()
    assert shell.say("add", "B", "--payload", payload) == "job 2 ready"


def test_a_database_is_not_made_on_a_full_disk(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * (1024 * 1024 - 16 * 4096))
    shell = Shell(small_disk)
    message = shell.refuse("add", "A", code=1)
    assert "full" in message or "No space left" in message
    assert [entry.name for entry in small_disk.iterdir()] == ["ballast"]
