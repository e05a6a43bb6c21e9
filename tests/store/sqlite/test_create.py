"""The database's file: found, made with care, and refused with what to do when it is not what it should be."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from rota.core.errors import BadInput, NotFound, StoreError, StoreFull
from rota.process.host import log_of
from rota.settings import Settings
from rota.store.open import find, open_store, path_of
from rota.store.sqlite.create import create
from rota.store.sqlite.database import SqliteDatabase
from tests.support.processes import output, python
from tests.support.stores import make_store
from tests.support.work import add, claim, told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The other user may not be able to reach the sources: what is imported and read late is brought in before.
BEFORE = """
import glob, os, tempfile
from rota.core.errors import StoreError
from rota.store import migrate
from rota.store.engine import statements
numbered = migrate.migrations()
migrate.migrations = lambda: numbered
texts = {path: statements.read_statements(path) for path in glob.glob(statements.FOLDER + "/*.sql")}
statements.read_statements = texts.__getitem__
with tempfile.TemporaryDirectory() as folder, open_store(folder + "/rota.db", Settings(), make=True) as store:
    store.jobs.add(NewJob("imports"))
    store.jobs.list()
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
"""
AS_NOBODY = f"""{BEFORE}
try:
    with open_store(sys.argv[1], Settings(), make=True) as store:
        store.jobs.add(NewJob("a job"))
    print("it worked")
except StoreError as problem:
    print(problem)
"""


READS = f"""{BEFORE}
with open_store(sys.argv[1], Settings()) as store:
    print([job.title for job in store.jobs.list()])
    try:
        store.jobs.add(NewJob("a job"))
    except StoreError as problem:
        print(problem)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may reach, so that modes count even when the tests run as root."""
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.parametrize("has_log", [True, False])
def test_a_database_in_a_folder_that_may_not_be_written_can_be_read(open_folder: Path, has_log: bool) -> None:
    path = open_folder / "rota.db"
    with open_store(str(path), Settings(), make=True) as store:
        add(store, title="kept")
    if not has_log:
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute("SELECT count(*) FROM job").fetchall()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        (open_folder / "rota.db-wal").unlink(missing_ok=True)
        (open_folder / "rota.db-shm").unlink(missing_ok=True)
    for each in open_folder.iterdir():
        each.chmod(0o444)
    open_folder.chmod(0o555)
    with python(READS, path) as program:
        titles, refusal = output(program).splitlines()
    open_folder.chmod(0o755)
    assert titles == "['kept']" and "may not be written: check its owner and mode" in refusal


def test_the_nearest_folder_upwards_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find(str(inner)) is None
    with pytest.raises(NotFound, match="there is no database here or in any folder above: `rota init` makes one"):
        open_store(None, Settings())
    told: list[str] = []
    open_store(None, Settings(), make=True, told=told.append).close()
    assert find(str(inner)) == str(tmp_path / ".rota" / "rota.db")
    assert told == [f"made a new database at {tmp_path}/.rota/rota.db"]


def test_a_folder_that_lost_its_database_is_an_error_and_never_a_fresh_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".rota").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=r"\.rota has lost its rota\.db"):
        open_store(None, Settings(), make=True)
    assert os.listdir(tmp_path / ".rota") == []


def test_a_missing_file_is_not_found_unless_it_may_be_made(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    with pytest.raises(NotFound, match=r"there is no database at .*x\.db"):
        open_store(path, Settings())
    assert os.listdir(tmp_path) == []
    open_store(path, Settings(), make=True).close()
    assert os.path.exists(path)


@pytest.mark.parametrize(
    ("url", "path"),
    [("sqlite:////srv/rota.db", "/srv/rota.db"), ("/srv/rota.db", "/srv/rota.db"), ("sqlite:///a.db", "{here}/a.db")],
)
def test_a_url_or_a_path_names_the_file(url: str, path: str) -> None:
    assert path_of(url) == path.format(here=os.getcwd())


@pytest.mark.parametrize("url", ["mysql://x", "", "/srv/", "/", "ftp://h/x.db"])
def test_what_names_no_database_is_refused_with_what_would_be_right(url: str) -> None:
    with pytest.raises(BadInput, match=r"write sqlite:///path/to/rota\.db"):
        path_of(url)


def test_the_files_are_their_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(None, Settings(), make=True) as store:
        add(store)
        modes = {name: stat.S_IMODE((tmp_path / ".rota" / name).stat().st_mode) for name in os.listdir(".rota")}
    assert {"rota.db", "rota.db-wal", "rota.db-shm", "rota.db.lock"} <= set(modes)
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / ".rota").stat().st_mode) == 0o700


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all, only text" * 100)
    with pytest.raises(StoreError, match="is not a SQLite database"):
        open_store(str(path), Settings(), make=True)
    assert path.read_text() == "not a database at all, only text" * 100


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "other.db")
    connection = apsw.Connection(path)
    connection.execute("CREATE TABLE job (id)")
    connection.close()
    with pytest.raises(StoreError, match="is not a rota database but another program's database"):
        open_store(path, Settings(), make=True)
    assert apsw.Connection(path).execute("SELECT name FROM sqlite_schema").fetchall() == [("job",)]


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="but an empty file"):
        open_store(str(tmp_path / "empty.db"), Settings(), make=True)


def test_a_damaged_database_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "rota.db"
    create(str(path), str(tmp_path), None)
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="is damaged"), open_store(str(path), Settings()) as store:
        add(store)


def test_a_database_removed_while_it_is_open_is_written_no_more_and_put_back_it_works_again(tmp_path: Path) -> None:
    with make_store("sqlite", tmp_path) as store:
        job = add(store)
        (tmp_path / "rota.db").rename(tmp_path / "kept")
        for change in (lambda: add(store), lambda: claim(store, job), store.reconcile):
            with pytest.raises(StoreError, match=r"rota\.db was removed or replaced while it was open"):
                change()
        with pytest.raises(NotFound, match="there is no database"):
            open_store(str(tmp_path / "rota.db"), Settings())
        assert not (tmp_path / "rota.db").exists(), "never a fresh empty one"
        (tmp_path / "kept").rename(tmp_path / "rota.db")
        assert add(store) > job and store.database.integrity() == "ok"


def test_a_database_replaced_while_it_is_open_is_written_no_more_and_the_new_one_is_left_alone(tmp_path: Path) -> None:
    create(str(tmp_path / "other.db"), str(tmp_path), None)
    new = (tmp_path / "other.db").read_bytes()
    with make_store("sqlite", tmp_path) as store:
        add(store)
        (tmp_path / "other.db").rename(tmp_path / "rota.db")
        with pytest.raises(StoreError, match="put it back, or restart what uses it"):
            add(store)
        assert (tmp_path / "rota.db").read_bytes() == new


def test_a_database_that_may_not_be_written_says_so(open_folder: Path) -> None:
    path = open_folder / "rota.db"
    create(str(path), str(open_folder), None)
    path.chmod(0o444)
    with python(AS_NOBODY, path) as program:
        said = output(program)
    assert "check" in said and "owner and mode" in said


def test_a_folder_that_may_not_be_written_says_so(open_folder: Path) -> None:
    os.chmod(open_folder, 0o555)
    with python(AS_NOBODY, open_folder / "rota.db") as program:
        said = output(program)
    assert f"{open_folder} cannot be written" in said and "choose another folder with --db" in said
    assert os.listdir(open_folder) == []


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no folder .*nowhere: make it first"):
        open_store(str(tmp_path / "nowhere" / "rota.db"), Settings(), make=True)


def test_a_full_disk_is_told_nothing_is_acknowledged_and_it_works_again_with_room(tmp_path: Path) -> None:
    with make_store("sqlite", tmp_path) as store:
        job = add(store)
        database = store.database
        assert isinstance(database, SqliteDatabase)
        connection = database._connection
        before = told(store)
        connection.pragma("max_page_count", connection.pragma("page_count"))
        with pytest.raises(StoreFull, match=r"the disk of .* is full: nothing was changed; make room and try again"):
            add(store, payload="x" * 200_000)
        assert told(store) == before and [each.id for each in store.jobs.list()] == [job]
        connection.pragma("max_page_count", 1 << 30)
        add(store, payload="x" * 200_000)


@pytest.mark.postgres
def test_a_log_stands_beside_a_file_and_those_of_databases_elsewhere_are_told_apart(tmp_path: Path) -> None:
    with make_store("sqlite", tmp_path) as store:
        assert log_of(store.database.beside, "crew.log") == str(tmp_path / "crew.log")
    with make_store("postgres", tmp_path) as one, make_store("postgres", tmp_path / "other") as other:
        logs = {log_of(each.database.beside, "crew.log") for each in (one, other)}
        assert len(logs) == 2 and all(log.endswith(".crew.log") for log in logs)
