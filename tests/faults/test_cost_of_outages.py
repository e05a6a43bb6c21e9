"""A store that is away costs no processor time: everyone who waits for it sleeps, and each is measured by itself."""

from __future__ import annotations

import os
import pty
import signal
import sqlite3
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.cable import cable
from tests.support.crews import Crew, children
from tests.support.eventually import eventually
from tests.support.far import Far
from tests.support.processes import spent
from tests.support.shell import ROTA, environment
from tests.support.stores import database_for_tests, rows, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.cable import Cable

MOST, WINDOW, TRIES = 0.02, 3.0, 4
POLL = "200ms"  # who waits for the poll although a question is under way would spin soon
# Jobs that cost nothing themselves: one reports while the store is away, so that something waits to be written.
TASKS = """
@app.task(queue="tag")
def report(ctx) -> None:
    note(f"hold report {os.getpid()}")
    done = 0
    while not (here / "go-report").exists():
        done += 1
        ctx.progress(done, None)
        time.sleep(0.5)


@app.task(queue="tag")
def wait() -> None:
    note(f"hold wait {os.getpid()}")
    while not (here / "go-wait").exists():
        time.sleep(0.5)
"""


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def all_sleep(pids: Sequence[int]) -> None:
    """Check that each of these needs next to nothing, within a few tries: what goes on a while never does."""
    shares: dict[str, float] = {}
    for _ in range(TRIES):
        before, began = [spent(pid) for pid in pids], time.monotonic()
        time.sleep(WINDOW)
        window = time.monotonic() - began
        shares = {f"{pid} {command(pid)}": (spent(pid) - was) / window for pid, was in zip(pids, before, strict=True)}
        if max(shares.values()) <= MOST:
            return
    raise AssertionError(shares)


@contextmanager
def top(crew: Crew) -> Iterator[int]:
    """`rota top` on a terminal whose screen nobody sees."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(crew.folder)
        os.execve(ROTA, [ROTA, "top"], environment(**crew.env, TERM="xterm"))

    def swallow() -> None:
        try:
            while os.read(terminal, 65536):
                pass
        except OSError:  # its program has ended
            pass

    reader = threading.Thread(target=swallow)
    reader.start()
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        reader.join()
        os.close(terminal)


def begin(crew: Crew) -> list[int]:
    """Start a crew with its API, and a job in each worker; all of its processes."""
    crew.env |= {"ROTA_POLL_INTERVAL": POLL, "ROTA_HTTP_PORT": "0"}
    crew.teach(TASKS)
    crew.start("tag=2", http=True)
    eventually(lambda: crew.up(3), within=60)
    crew.add("report")
    crew.add("wait")
    eventually(lambda: crew.held_by("report") and crew.held_by("wait"), within=60)
    return [crew.pid, *children(crew.pid)]


def orphan(crew: Crew) -> list[int]:
    """Kill the orchestrator; the workers and the helpers that look after them."""
    os.kill(crew.pid, signal.SIGKILL)
    crew.wait()
    workers = [crew.held_by("report"), crew.held_by("wait")]

    def helpers() -> list[int]:
        return [pid for pid in crew.processes() if "rota.worker.orphan" in command(pid)]

    eventually(lambda: len(helpers()) == len(workers))
    return [*workers, *helpers()]


@pytest.fixture
def sqlite_crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.end()


def test_nobody_spins_while_another_program_keeps_the_sqlite_database_locked(sqlite_crew: Crew) -> None:
    crew = sqlite_crew
    stranger = sqlite3.connect(crew.app.store.database.path, isolation_level=None)
    processes = begin(crew)
    with top(crew) as watcher:
        eventually(lambda: spent(watcher) > 0.2)
        stranger.execute("BEGIN IMMEDIATE")
        eventually(lambda: crew.said(f"whose write lock process {os.getpid()} "))
        all_sleep([*processes, watcher])
    all_sleep(orphan(crew))
    stranger.close()


def test_nobody_spins_while_the_sqlite_database_is_moved_away(sqlite_crew: Crew) -> None:
    crew, path = sqlite_crew, sqlite_crew.app.store.database.path
    processes = begin(crew)
    with top(crew) as watcher:
        eventually(lambda: spent(watcher) > 0.2)
        os.rename(path, f"{path}.away")
        eventually(lambda: crew.said("trying again until it answers"))
        all_sleep([*processes, watcher])
    all_sleep(orphan(crew))
    os.rename(f"{path}.away", path)


@contextmanager
def at_the_end_of_a_cable(folder: Path) -> Iterator[tuple[Crew, Cable]]:
    direct = url_of("postgres", folder)
    with cable(database_for_tests()) as link:
        crew = Crew(folder, ROTA_DB=f"{link.url}?{direct.partition('?')[2]}")
        try:
            yield crew, link
        finally:
            link.down = False
            crew.end()


@pytest.mark.postgres
def test_nobody_spins_while_postgresql_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API has a reader of its feed, and was still reading a long log when the link broke."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with at_the_end_of_a_cable(tmp_path) as (crew, link):
        processes = begin(crew)
        (api,) = [pid for pid in processes if "rota.api" in command(pid)]
        with top(crew) as watcher, crew.api() as client, client.stream("GET", "/api/v1/events"):
            eventually(lambda: spent(watcher) > 0.2)
            before = spent(api)
            rows(
                crew.app.store,
                "INSERT INTO event (at, actor, facts) SELECT 1, 'many', '[]' FROM generate_series(1, 60000)",
            )
            eventually(lambda: spent(api) > before + 0.1)
            link.down = True
            link.cut()
            eventually(lambda: crew.said("trying again until it answers"))
            all_sleep([*processes, watcher])
        all_sleep(orphan(crew))


def test_a_host_that_reaches_only_the_api_does_not_spin_while_that_is_away(tmp_path: Path) -> None:
    far = Far(tmp_path)
    try:
        host = far.host("one", TASKS, ROTA_POLL_INTERVAL=POLL)
        far.start("one")
        eventually(lambda: far.up(2), within=60)
        far.add("report")
        far.add("wait")
        eventually(lambda: host.held_by("report") and host.held_by("wait"), within=60)
        processes = [far.orchestrator(host), *far.workers(host)]
        far.kill_api()
        eventually(lambda: host.said("trying again until it answers"))
        all_sleep(processes)
    finally:
        far.end()
