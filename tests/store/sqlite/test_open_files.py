"""One SQLite file beside other SQLite libraries, forks and names: nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from rota.core.errors import InDoubt, NotFound, StoreError
from rota.settings import Settings
from rota.store.open import open_store
from rota.store.sqlite import open_files
from rota.store.sqlite.create import create
from tests.support.processes import OPEN, line, output, python, say
from tests.support.work import add

if TYPE_CHECKING:
    from pathlib import Path


def titles(path: Path) -> list[str]:
    """What another program finds, which leaves the file as SQLite does when nobody else has it open."""
    with closing(sqlite3.connect(path)) as connection:
        return [title for (title,) in connection.execute("SELECT title FROM job ORDER BY id")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create(str(tmp_path / "rota.db"), str(tmp_path), None)
    return tmp_path / "rota.db"


WITHIN = """
from rota.store.jobs.enqueue import Addition
def add(tx, title):
    Addition(tx, 1).add([NewJob(title)], [None])
"""
READ_IN_THE_SAME_PROCESS = """
import os, sqlite3
def read():
    connection = sqlite3.connect(sys.argv[1])
    connection.execute("SELECT count(*) FROM job").fetchall()
    return connection
before = read() if sys.argv[2] == "before" else None
store = open_store(sys.argv[1], Settings())
store.jobs.add(NewJob("a"))
before.close() if before else read().close()
store.jobs.add(NewJob("b"))
with store.write() as tx:
    read().close()
    add(tx, "c")
print("read", flush=True)
input()
store.jobs.add(NewJob("d"))
read().close()
store.jobs.add(NewJob("e"))
os._exit(0)
"""


@pytest.mark.parametrize("opened", ["before", "after"])
def test_no_acknowledged_job_is_lost_when_the_same_process_reads_the_file_with_sqlite3(path: Path, opened: str) -> None:
    with python(WITHIN + READ_IN_THE_SAME_PROCESS, path, opened) as program:
        assert line(program) == "read"
        assert titles(path) == ["a", "b", "c"], (
            "nor when another program leaves, which sees no lock of SQLite's any more"
        )
        say(program)
        output(program)
    assert titles(path) == ["a", "b", "c", "d", "e"]


def test_where_locks_end_with_any_close_a_write_after_it_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "_SET_LOCK", None)
    with open_store(str(path), Settings()) as store:
        add(store, title="a")
        assert titles(path) == ["a"]
        with pytest.raises(StoreError, match=r"rota\.db-wal was removed or replaced while it was open, and nothing"):
            add(store, title="b")
    assert titles(path) == ["a"]


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_was_removed_or_replaced_is_written_no_more(path: Path, suffix: str) -> None:
    with open_store(str(path), Settings()) as store:
        add(store)
        os.unlink(f"{path}{suffix}")
        with pytest.raises(StoreError, match=f"rota.db{suffix} was removed or replaced while it was open, and nothing"):
            add(store)
        (path.parent / f"rota.db{suffix}").touch()
        with pytest.raises(StoreError, match="put it back, or restart what uses it"):
            add(store)


def test_a_change_whose_log_was_removed_under_it_is_not_acknowledged(path: Path) -> None:
    with open_store(str(path), Settings()) as store:
        add(store)
        with pytest.raises(InDoubt, match=r"rota\.db-wal was removed or replaced during a change, which may be lost"):  # noqa: SIM117
            with store.write():
                os.unlink(f"{path}-wal")
        with pytest.raises(StoreError, match="and nothing was changed"):
            add(store)


def test_files_that_come_and_go_beside_the_database_disturb_nobody(path: Path) -> None:
    with open_store(str(path), Settings()) as store:
        for n in range(5):
            (path.parent / f"other-{n}").touch()
            add(store)
            (path.parent / f"other-{n}").unlink()
            add(store)


def test_a_copy_made_by_vacuum_into_has_a_log_again_once_it_is_opened(path: Path) -> None:
    with open_store(str(path), Settings()) as store:
        add(store, title="a")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("VACUUM INTO ?", [str(path.parent / "copy.db")])
    with open_store(str(path.parent / "copy.db"), Settings()) as copy:
        add(copy, title="b")
        assert (path.parent / "copy.db-wal").stat().st_size > 0
    assert titles(path.parent / "copy.db") == ["a", "b"]


FORKS = {
    "a daemon whose parent exits": """
if os.fork():
    os._exit(0)
os.setsid()
work("child")
""",
    "a process of multiprocessing whose parent exits": """
import multiprocessing
multiprocessing.get_context("fork").Process(target=work, args=["child"]).start()
os._exit(0)
""",
    "a server that preloads the application": """
workers = [os.fork()]
if not workers[0]:
    work("child")
    os._exit(0)
app.enqueue(NewJob("master"))
app.close()
os.waitpid(workers[0], 0)
""",
}
WORK = """
import os
from rota import App
app = App(sys.argv[1])
app.enqueue(NewJob("parent"))
def work(name):
    app.enqueue(NewJob(f"{name} 1"))
    print("added", flush=True)
    os.read(0, 10)
    app.enqueue(NewJob(f"{name} 2"))
    os.read(0, 10)
    app.enqueue(NewJob(f"{name} 3"))
"""


@pytest.mark.parametrize("fork", FORKS)
def test_no_acknowledged_job_of_a_forked_child_is_lost_when_another_program_reads(path: Path, fork: str) -> None:
    with python(WORK + FORKS[fork], path) as program:
        assert line(program) == "added"
        if fork != "a server that preloads the application":
            program.wait()
        found = titles(path)
        say(program)
        with open_store(str(path), Settings()) as store:
            add(store, title="beside")
        assert titles(path)[: len(found)] == found
        say(program)
        output(program)
    assert {"parent", "child 1", "child 2", "child 3", "beside"} <= set(titles(path))


DURING_A_WRITE = """
import os, threading
store = open_store(sys.argv[1], Settings())
forking, writing = threading.Event(), threading.Event()
def write():
    with open_store(sys.argv[1], Settings()) as mine, mine.write() as tx:
        writing.set()
        forking.wait()
        for _ in range(100):
            add(tx, "thread")
sys.addaudithook(lambda event, _: forking.set() if event == "os.fork" else None)
thread = threading.Thread(target=write)
thread.start()
writing.wait()
child = os.fork()
if not child:
    store.jobs.add(NewJob("child"))
    os._exit(0)
store.jobs.add(NewJob("parent"))
thread.join()
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_waits_for_the_transactions_of_other_threads(path: Path) -> None:
    with python(WITHIN + DURING_A_WRITE, path) as program:
        output(program)
    found = titles(path)
    assert len(found) == 102 and {"child", "parent"} <= set(found[100:])


IN_A_TRANSACTION = """
import os
from rota.core.errors import StoreError
store, other = open_store(sys.argv[1], Settings()), open_store(sys.argv[1], Settings())
store.jobs.add(NewJob("before"))
try:
    with store.write() as tx:
        add(tx, "within")
        child = os.fork()
        if not child:
            store.jobs.add(NewJob("child"))
        assert os.waitpid(child, 0)[1] == 0
except StoreError as problem:
    print(problem, flush=True)
if not child:
    for use in (store, other):
        try:
            use.jobs.add(NewJob("child"))
        except StoreError as problem:
            print(problem, flush=True)
    sys.exit(0)
store.jobs.add(NewJob("after"))
other.jobs.add(NewJob("after"))
"""


def test_after_a_fork_within_a_transaction_the_child_is_refused_and_the_parent_loses_nothing(path: Path) -> None:
    with python(WITHIN + IN_A_TRANSACTION, path) as program:
        refused = output(program).splitlines()
    assert len(refused) == 3 and all("forked while a transaction was open: fork outside" in each for each in refused)
    assert titles(path) == ["before", "within", "after", "after"]


DURING_A_LONG_ONE = """
import os, threading
from rota.core.errors import StoreError
from rota.store.sqlite import database
database.FORK_PATIENCE = 0.05
store, other = open_store(sys.argv[1], Settings()), open_store(sys.argv[1], Settings())
reading, forked = threading.Event(), threading.Event()
def read():
    with store.database.read():
        reading.set()
        forked.wait()
thread = threading.Thread(target=read)
thread.start()
reading.wait()
child = os.fork()
if not child:
    try:
        store.jobs.add(NewJob("child"))
    except StoreError as problem:
        print(problem, flush=True)
    sys.exit(0)
other.jobs.add(NewJob("parent"))
assert os.waitpid(child, 0)[1] == 0
forked.set()
thread.join()
store.jobs.add(NewJob("parent"))
"""


def test_a_fork_waits_only_so_long_and_its_child_is_then_refused(path: Path) -> None:
    with python(DURING_A_LONG_ONE, path) as program:
        assert "fork outside of transactions" in output(program)
    assert titles(path) == ["parent", "parent"]


def test_a_database_has_one_lock_and_one_bell_under_all_its_names(path: Path) -> None:
    (path.parent / "link.db").symlink_to(path)
    with open_store(str(path), Settings()) as store, open_store(str(path.parent / "link.db"), Settings()) as other:
        assert other.database.url == store.database.url == str(path)
        bell = store.database.listen()
        add(other)
        assert bell.wait(30) and len(store.jobs.list()) == 1
        bell.close()
    assert sorted(name for name in os.listdir(path.parent) if "link" in name) == ["link.db"]


def test_a_link_to_a_database_that_is_gone_is_an_error_and_never_a_fresh_one(path: Path) -> None:
    (path.parent / "link.db").symlink_to(path)
    path.rename(path.parent / "kept")
    with pytest.raises(NotFound):
        open_store(str(path.parent / "link.db"), Settings(), make=True)
    assert not path.exists()


def test_a_database_with_a_hard_link_is_refused_until_that_is_removed(path: Path) -> None:
    os.link(path, path.parent / "other.db")
    for name in ("rota.db", "other.db"):
        with pytest.raises(
            StoreError, match=r"has 2 names \(hard links\), and under each it would have a log of its own"
        ):
            open_store(str(path.parent / name), Settings())
    os.unlink(path.parent / "other.db")
    with open_store(str(path), Settings()) as store:
        add(store)


def test_threads_and_programs_that_make_a_database_at_once_never_see_it_under_two_names(tmp_path: Path) -> None:
    make = "open_store(sys.argv[1], Settings(), make=True).close()"
    with ExitStack() as stack:
        for program in [stack.enter_context(python(make, tmp_path / "new.db")) for _ in range(6)]:
            output(program)


MOUNTED = """
import os
from rota.core.errors import StoreError
from rota.store.sqlite.lock import _last_holder as last_holder
folder, other = sys.argv[1:]
with open_store(f"{folder}/rota.db", Settings()) as store, open_store(f"{other}/rota.db", Settings()) as beside:
    bell = store.database.listen()
    beside.jobs.add(NewJob("a"))
    assert bell.wait(30) and len(store.jobs.list()) == 1
try:
    open_store(f"{other}.db", Settings())
except StoreError as problem:
    print(problem)
"""


def test_a_bind_mount_of_the_folder_is_the_same_database_and_one_of_the_file_is_refused(
    path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "other").mkdir()
    (elsewhere / "other.db").touch()
    script = 'mount --bind "$1" "$2" && mount --bind "$1/rota.db" "$2.db" && exec "$3" -c "$4" "$1" "$2"'
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    arguments = [str(path.parent), str(elsewhere / "other"), sys.executable, OPEN + MOUNTED]
    ran = subprocess.run(
        [*unshare, "sh", "-c", script, "sh", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "other.db is a mount of a single file" in ran.stdout and "mount the folder" in ran.stdout
