"""A real orchestrator with real workers, in a folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from rota.app import App
from rota.core.event import Changed
from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.open import open_store
from tests.support.eventually import eventually
from tests.support.made import make
from tests.support.shell import ROTA, call, environment
from tests.support.tiers import refuse_in_fast

if TYPE_CHECKING:
    from rota.core.job import Job
    from rota.store.workers.registration import Certificate

POINTS = Path(__file__).parent / "points"
SHOP = '''
import os, pathlib, signal, time
from rota import App

app = App()
here = pathlib.Path(__file__).parent


def note(text):
    with open(here / "ledger", "a") as ledger:
        ledger.write(f"{text}\\n")


@app.task(queue="tag")
def tag(n: int) -> int:
    note(n)
    return n


@app.task(queue="tag")
def hold(name: str) -> int:
    """Run until the test lets it go."""
    note(f"hold {name} {os.getpid()}")
    while not (here / f"go-{name}").exists():
        time.sleep(0.005)
    return os.getpid()


@app.task(queue="tag")
def say(text: str, ctx) -> None:
    ctx.log(text)


@app.task(queue="tag")
def broken(n: int) -> None:
    raise ValueError(n)


@app.task(queue="tag")
def die() -> None:
    note("die")
    os.kill(os.getpid(), signal.SIGKILL)
'''


class Crew:
    """One orchestrator at a time over one database."""

    def __init__(self, folder: Path, **env: str) -> None:
        refuse_in_fast("a crew")
        self.folder = folder
        self.env = env
        (folder / "shop.py").write_text(SHOP)
        url = env.get("ROTA_DB") or f"{folder}/.rota/rota.db"
        make(url)
        with open_store(url, Settings()) as store:
            store.queues.set("tag", fence="tell")
        self.app = App(url, Settings())
        self._process: subprocess.Popen[bytes] | None = None
        self._beside: list[subprocess.Popen[bytes]] = []
        self.log = folder / "log"

    def teach(self, tasks: str) -> None:
        """Add tasks to the application. Workers started from now on know them."""
        with (self.folder / "shop.py").open("a") as shop:
            shop.write(f"\n\n{tasks}")

    def shorten_leases(self, seconds: int) -> None:
        """Shorten an orchestrator's lease from 15 seconds, and everything derived from it in proportion."""
        self.env |= {"PYTHONPATH": str(POINTS), "ROTA_TEST_LEASE": str(seconds)}

    def start(self, pools: str = "tag=2", *options: str, under: tuple[str, ...] = (), http: bool = False) -> None:
        """Start an orchestrator; `under` is a command that starts it, such as `setpriv`."""
        words = [
            *under,
            ROTA,
            "orchestrator",
            "start",
            *([] if http else ["--no-http"]),
            "--app",
            "shop:app",
            "--pool",
            pools,
            *options,
        ]
        self._process = self._open(words)

    def begin(self, *words: str) -> None:
        """Start an orchestrator with another command."""
        self._process = self._open([ROTA, *words])

    def start_beside(self, workers: int = 1, queue: str = "tag", **env: str) -> subprocess.Popen[bytes]:
        """Start another orchestrator with workers of its own. `env` adds to its environment."""
        words = [ROTA, "worker", "start", "--app", "shop:app", "--queue", queue, "--workers", str(workers)]
        self._beside.append(self._open(words, **env))
        return self._beside[-1]

    def _open(self, words: list[str], **more: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            env = environment(**{**self.env, **more})
            return subprocess.Popen(words, cwd=self.folder, env=env, stderr=log, stdin=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask the orchestrator to stop, and return its exit code."""
        os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> int:
        """Wait until the orchestrator has stopped, and return its exit code."""
        assert self._process is not None
        code = self._process.wait(60)
        self._process = None
        return code

    def end(self) -> None:
        """End every process, whatever the test did."""
        for process in (*self._beside, *([self._process] if self._process else [])):
            process.kill()
            process.wait()
        while left := self.processes():
            for pid in left:
                kill(pid, signal.SIGKILL)
        self.app.close()

    def processes(self) -> list[int]:
        """Return the processes of the workers and all that they started. Their environment names this database."""
        mark, own = f"ROTA_DB={self.app.store.database.url}".encode(), self._process.pid if self._process else 0
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()} - {own}
        return [pid for pid in pids if mark in told(pid) and is_alive(pid)]

    def call(self, *words: str, code: int = 0) -> str:
        answer = call(list(words), self.folder, self.env)
        assert answer.returncode == code, (answer.returncode, answer.stdout, answer.stderr)
        return answer.stdout + answer.stderr

    def api(self) -> httpx.Client:
        """Return a client of the API with the admin's token, once it answers."""
        beside = self.app.store.database.beside
        eventually(Path(f"{beside}.http").exists)
        address, secret = (Path(f"{beside}.{name}").read_text().strip() for name in ("http", "token"))
        return httpx.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}, timeout=60)

    def add(self, kind: str, **payload: object) -> int:
        return self.app.enqueue(self.new(kind, **payload)).id

    @staticmethod
    def new(kind: str, **payload: object) -> NewJob:
        return NewJob(kind, queue="tag", kind=kind, payload=payload or None)

    def ledger(self) -> list[str]:
        path = self.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def held_by(self, name: str) -> int:
        """Return the process that runs the latest `hold` of this name; 0 if there is none."""
        lines = [line for line in self.ledger() if line.startswith(f"hold {name} ")]
        return int(lines[-1].split()[2]) if lines else 0

    def let_go(self, name: str) -> None:
        (self.folder / f"go-{name}").touch()

    def said(self, text: str) -> list[str]:
        """Return the lines of the log that contain a text."""
        return [line for line in self.log.read_text().splitlines() if text in line]

    def facts(self, noun: str, verb: str) -> list[dict[str, Any]]:
        """Return the details of all facts of this kind."""
        facts = (fact for event in self.app.store.events.after("0", 1_000_000) for fact in event.of(Changed, verb))
        return [dict(fact.details) for fact in facts if fact.noun == noun]

    def done(self, *ids: int) -> list[Job]:
        """Wait until these jobs are done, and return them."""
        return self.app.jobs.wait(ids, "done", 60_000_000)

    def deaths(self) -> list[Certificate]:
        """Return the certificates of all workers that are gone, oldest first."""
        certificates = [self.app.workers.certificate(worker.id) for worker in self.app.workers.list(gone_too=True)]
        return sorted((each for each in certificates if each is not None), key=lambda each: each.died_at)

    def slot(self, n: int) -> str:
        found = [slot.status for slot in self.app.store.slots.all() if slot.n == n]
        return found[0] if found else "none"

    def up(self, count: int) -> bool:
        return sum(slot.status == "up" for slot in self.app.store.slots.all()) == count


def children(pid: int) -> list[int]:
    """Return the living children of a process."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split() if is_alive(int(child))]
    except FileNotFoundError:
        return []


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def told(pid: int) -> bytes:
    """Return the environment with which a process was started; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def states(pid: int) -> list[str]:
    """Return the states of a process's threads: S is asleep, T is stopped. Threads that are ending are left out."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{thread}/stat") as file:
            found.append(file.read().rpartition(")")[2].split()[0])
    return found
