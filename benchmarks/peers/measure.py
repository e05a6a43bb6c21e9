"""One system at work in a fresh place: how fast jobs go in and out, how soon one begins, and what a kill costs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.peers import environment, work
from benchmarks.peers.places import CannotRun, size
from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.peers.places import Places
    from benchmarks.peers.table import System

STARTS_WITHIN, ANSWERS_WITHIN = 40.0, 120.0
LOOK_EVERY = 0.003


class Size(Record):
    """How much is measured."""

    jobs: int = 20_000
    add_for: float = 2.0
    fill_for: float = 3.0
    drain_for: float = 5.0
    pickups: int = 60
    again_within: float = 60.0


class Running:
    """A system with a place and a folder of marks of its own."""

    def __init__(self, system: System, place: str, marks: str) -> None:
        self._system = system
        self._program = [environment.python(system), "-m", work.RUN, system.module]
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("ROTA_", "PYTHON"))}
        ours = {work.PLACE: place, work.MARKS: marks, "PYTHONPATH": environment.ROOT, "XDG_RUNTIME_DIR": marks}
        rota = {"ROTA_DB": place if "://" in place else os.path.join(place, "rota.db")}
        self._environment = {**plain, **ours, **rota, **dict(system.environment)}
        self._folder = place if "://" not in place else marks
        self._log = os.path.join(marks, "log")
        self.marks = marks

    def ask(self, *words: object) -> Any:
        """What the system's program answers."""
        command = [*self._program, *map(str, words)]
        try:
            ran = subprocess.run(
                command,
                cwd=self._folder,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=ANSWERS_WITHIN,
                check=False,
            )
        except subprocess.TimeoutExpired as problem:
            raise CannotRun(f"`{words[0]}` took more than {ANSWERS_WITHIN:g} s") from problem
        if ran.returncode:
            raise CannotRun(f"`{words[0]}` failed: {_last(ran.stderr)}")
        lines = ran.stdout.strip().splitlines()
        return json.loads(lines[-1]) if lines else None

    @contextmanager
    def workers(self, count: int) -> Iterator[subprocess.Popen[bytes]]:
        """So many worker processes, killed with all they have started when the block ends."""
        with open(self._log, "ab") as log:
            process = subprocess.Popen(
                [*self._program, "work", str(count)],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            _end_all(self.marks)
            process.wait()

    def count(self) -> int:
        """How many jobs have run."""
        return size(self.marks, work.COUNT)

    def complaint(self) -> str:
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return _last(file.read())


@contextmanager
def running(system: System, places: Places) -> Iterator[Running]:
    """The system in a fresh place, prepared."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as marks:
        found = Running(system, places.fresh(system.on), marks)
        found.ask("prepare")
        yield found


def enqueue(system: System, places: Places, much: Size) -> dict[str, float]:
    """Jobs a second into a queue, one by one and, where the system has a way for it, in bulk."""
    with running(system, places) as here:
        found = {"enqueue one": here.ask("add", much.jobs, much.add_for), "enqueue bulk": here.ask("bulk", much.jobs)}
        return {name: each["jobs"] / each["seconds"] for name, each in found.items() if each}


def drain(system: System, places: Places, workers: int, much: Size) -> float:
    """Jobs a second out of a queue that was filled before, by so many worker processes."""
    with running(system, places) as here:
        filled = here.ask("bulk", much.jobs) or here.ask("add", much.jobs, much.fill_for)
        return _drain(here, filled["jobs"], workers, much.drain_for)


def _drain(here: Running, jobs: int, workers: int, most: float) -> float:
    """From the first job that was seen to have run to the last, or for so many seconds."""
    with here.workers(workers) as process:
        _wait(here, process, lambda: here.count() > 0)
        began, before = time.perf_counter(), here.count()
        now, seen = began, before
        while seen < jobs and now - began < most:
            time.sleep(LOOK_EVERY)
            if (count := here.count()) != seen:
                now, seen = time.perf_counter(), count
            elif time.perf_counter() - now > most:
                break
        if seen == before:
            return jobs / LOOK_EVERY  # all of it between two looks: no faster can be told
        return (seen - before) / (now - began)


def pickup(system: System, places: Places, much: Size) -> list[float]:
    """Milliseconds from before an enqueue to the start of that job, on an idle system with two worker processes."""
    with running(system, places) as here, here.workers(2) as process:
        _warm_up(here, process, 20, much)
        time.sleep(0.5)
        return [float(ms) for ms in here.ask("pickup", much.pickups)]


def again(system: System, places: Places, much: Size) -> float | None:
    """Milliseconds from SIGKILL of the process that has a job in hand to its next start; None: not within the time."""
    with running(system, places) as here, here.workers(2) as process:
        _warm_up(here, process, 4, much)
        here.ask("hold")
        _wait(here, process, lambda: bool(work.marks(here.marks, work.HOLD)))
        time.sleep(1)  # whatever notes that a job is in hand has done so
        _, pid, _ = work.marks(here.marks, work.HOLD)[0]
        killed = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        while time.monotonic_ns() - killed < much.again_within * 1e9:
            later = [at for at, _, _ in work.marks(here.marks, work.HOLD) if at > killed]
            if later:
                return (later[0] - killed) / 1e6
            time.sleep(0.005)
    return None


def _warm_up(here: Running, process: subprocess.Popen[bytes], jobs: int, much: Size) -> None:
    """Let the workers run a few jobs; a slow system may add fewer in its time."""
    added = here.ask("add", jobs, much.add_for)["jobs"]
    _wait(here, process, lambda: here.count() >= added)


def _wait(here: Running, process: subprocess.Popen[bytes], seen: Callable[[], bool]) -> None:
    until = time.monotonic() + STARTS_WITHIN
    while not seen():
        if process.poll() is not None:
            raise CannotRun(f"its workers ended: {here.complaint()}")
        if time.monotonic() > until:
            raise CannotRun(f"no job ran within {STARTS_WITHIN:g} s: {here.complaint()}")
        time.sleep(LOOK_EVERY)


def _end_all(marks: str) -> None:
    """Kill every process that has this folder of marks in its environment: none else has."""
    mark = f"{work.MARKS}={marks}".encode()
    for _ in range(200):
        left = [int(name) for name in os.listdir("/proc") if name.isdigit() and _carries(int(name), mark)]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


def _carries(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:  # gone, or not ours
        return False


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1][:200]
