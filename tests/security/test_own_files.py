"""In a folder that others may write, what they put in the place of a file of rota's is neither used nor written."""

from __future__ import annotations

import os
import pwd
import shutil
from typing import TYPE_CHECKING

import apsw
import pytest

from rota.api.credentials import address_file, local_address, local_token
from rota.core.errors import StoreError
from rota.orchestrator.daemon import start_daemon
from rota.orchestrator.main import Start
from rota.orchestrator.pidlock import PidLock, holder, is_holder
from rota.settings import Settings
from rota.store.open import open_store
from rota.store.sqlite.create import create
from rota.store.sqlite.lock import blocker
from rota.worker.capture import Folder
from tests.support.work import add

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TABLES = "SELECT name FROM sqlite_master"
NOBODY = pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database that nobody has used yet."""
    create(str(tmp_path / "rota.db"), str(tmp_path), None)
    os.unlink(tmp_path / "rota.db.lock")
    return tmp_path / "rota.db"


def link(place: Path, target: Path) -> None:
    place.symlink_to(target)


def hard_link(place: Path, target: Path) -> None:
    os.link(target, place)


def pipe(place: Path, _: Path) -> None:
    os.mkfifo(place)


def foreign(place: Path, _: Path) -> None:
    assert os.getuid() == 0, "another user can be tried only by root: run the tests as root, in a container for example"
    place.write_text("1 2\n")
    os.chown(place, NOBODY, NOBODY)


PLANTS = [link, hard_link, pipe, foreign]


def use(path: Path, suffix: str) -> None:
    """What opens this file."""
    with open_store(str(path), Settings()) as store:
        match suffix:
            case "lock":
                add(store)
            case "orchestrator":
                PidLock(f"{path}.orchestrator").take()
            case "token":
                local_token(store)
            case "http":
                local_address(str(path))
            case _:
                store.database.listen(events=suffix == "events", behind_lock=suffix == "notify-early")


@pytest.mark.parametrize("suffix", ["lock", "notify", "events", "notify-early", "orchestrator", "token", "http"])
@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_planted_in_the_place_of_a_file_is_refused(
    path: Path, plant: Callable[[Path, Path], None], suffix: str
) -> None:
    victim = path.parent / "victim"
    victim.write_text("untouched")
    plant(path.parent / f"rota.db.{suffix}", victim)
    with pytest.raises(StoreError, match=f"rota.db.{suffix} is not a file of rota's but a link, a pipe or another"):
        use(path, suffix)
    assert victim.read_text() == "untouched"


@pytest.mark.parametrize("plant", PLANTS)
def test_a_notification_file_that_was_planted_is_not_written_and_no_change_waits_for_it(
    path: Path, plant: Callable[[Path, Path], None]
) -> None:
    victim = path.parent / "victim"
    victim.write_text("untouched")
    for suffix in ("notify", "events", "notify-early"):
        plant(path.parent / f"rota.db.{suffix}", victim)
    with open_store(str(path), Settings()) as store:
        add(store)
    assert victim.read_text() == "untouched"


def test_a_planted_file_names_no_process_that_would_be_signalled(path: Path) -> None:
    for suffix in ("orchestrator", "lock"):
        foreign(path.parent / f"rota.db.{suffix}", path)
    with pytest.raises(StoreError, match="another user's"):
        holder(f"{path}.orchestrator")
    with pytest.raises(StoreError, match="another user's"):
        is_holder(f"{path}.orchestrator", 1)
    assert blocker(str(path)) is None


def test_files_of_the_databases_owner_are_trusted(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)
    foreign(path.parent / "rota.db.lock", path)
    with open_store(str(path), Settings()) as store:
        add(store)


def test_a_secret_is_never_written_into_a_file_that_was_there(path: Path) -> None:
    aside = path.parent / f"rota.db.http.new-{os.getpid()}"
    foreign(aside, path)
    with address_file(str(path), "http://127.0.0.1:1"):
        assert (path.parent / "rota.db.http").stat().st_uid == os.getuid()
    assert aside.read_text() == "1 2\n"


def test_a_database_is_not_made_in_a_file_that_was_put_in_its_place_aside(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / f"rota.db.new-{os.getpid()}").symlink_to(victim)
    create(str(tmp_path / "rota.db"), str(tmp_path), None)
    assert not victim.exists() and (tmp_path / "rota.db").stat().st_size > 0


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_a_log_that_was_planted_beside_a_database_is_refused(
    path: Path, plant: Callable[[Path, Path], None], ending: str
) -> None:
    victim = path.parent / "victim"
    victim.write_text("untouched")
    place = path.parent / f"rota.db{ending}"
    place.unlink(missing_ok=True)
    plant(place, victim)
    with pytest.raises(StoreError, match=f"rota.db{ending} is not a file of rota's but a link, a pipe or another"):
        open_store(str(path), Settings())
    assert victim.read_text() == "untouched"


def test_a_change_in_a_planted_log_never_gets_into_the_database(tmp_path: Path) -> None:
    """SQLite takes every log with the right header for the last changes of whoever had the database open."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
        create(str(folder / "rota.db"), str(folder), None)
    connection = apsw.Connection(str(theirs / "rota.db"))
    connection.pragma("wal_autocheckpoint", 0)
    connection.execute("CREATE TABLE planted (x)")
    shutil.copy(theirs / "rota.db-wal", ours / "rota.db-wal")
    connection.close()
    os.chown(ours / "rota.db-wal", NOBODY, NOBODY)
    with pytest.raises(StoreError, match="another user's"):
        open_store(str(ours / "rota.db"), Settings())
    (ours / "rota.db-wal").unlink()
    with open_store(str(ours / "rota.db"), Settings()) as store:
        add(store)
    assert ("planted",) not in apsw.Connection(str(ours / "rota.db")).execute(TABLES).fetchall()


def test_output_is_kept_in_no_folder_of_another_user(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir(mode=0o777)
    os.chown(runs, NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="another user's folder"):
        Folder(str(runs), 1000).open("run-00000001.out", 10)
    assert list(runs.iterdir()) == []


def test_a_daemon_writes_its_log_through_no_link_unless_it_was_named(path: Path) -> None:
    victim = path.parent / "victim"
    (path.parent / "orchestrator.log").symlink_to(victim)
    with pytest.raises(StoreError, match=r"orchestrator\.log is not a file of rota's"):
        start_daemon(Settings(db=str(path)), Start("shop:app", {"tag": 1}), str(path.parent / "orchestrator.log"))
    assert not victim.exists()
