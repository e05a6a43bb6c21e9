"""The way of a job and of a death through the code, as docs/explanation/way-of-a-job.md lists it, in real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import rota
from tests.docs.pages import ROOT
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.shell import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

PAGE = ROOT / "docs/explanation/way-of-a-job.md"
MOST_FILES_OF_A_JOB, MOST_FILES_OF_A_DEATH = 40, 20
MOST_LINES = 10  # of a file that the page does not list
# A run may leave the way by chance: an exchange or a look at the log that was under way anyway does a part of it.
ENOUGH, MOST_RUNS = 3, 15
WORKERS = ENOUGH + 2  # so that no death has to wait for a slot that starts again
IDLE = 1.2  # seconds, in which everything periodic happens at least twice
PERIODIC = {"ROTA_POLL_INTERVAL": "500ms", "ROTA_FRAME_INTERVAL": "500ms"}
# The names that the page has for the main thread of a process and for its other one.
ORCHESTRATOR, WORKER = ("loop", "store thread"), ("handler", "pipe thread")
API, APPLICATION = ("API", "API thread"), ("application", "-")
# Adds a job for each number that it reads, and answers with the job's id.
PROGRAM = """
import sys
from shop import tag
for line in sys.stdin:
    print(tag.enqueue(int(line)).id, flush=True)
"""


class Step(NamedTuple):
    """The entry into a function."""

    thread: str
    file: str
    function: str

    @property
    def name(self) -> str:
        """The function without its class."""
        return self.function.rpartition(".")[2]


class Table(NamedTuple):
    """A part of the page: steps that follow the table before it, or that happen while those of that table do."""

    is_meanwhile: bool
    steps: list[Step]


class Window:
    """What ran while it was open."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.lines: dict[str, set[int]] = defaultdict(set)

    def missing(self, tables: Sequence[Table]) -> Step | None:
        """Return the first step that does not come after those before it; None if all of them do."""
        begin = end = 0
        for table in tables:
            begin = place = begin if table.is_meanwhile else end
            for step in table.steps:
                if step not in self.steps[place:]:
                    return step
                place = self.steps.index(step, place) + 1
            end = max(end, place)
        return None


class Recording:
    """Records the processes that have its environment while a window is open."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._switch, self._records = folder / "window", folder / "records"
        self._switch.write_bytes(b"\0")
        self._records.touch()
        watched = f"{folder}:{Path(rota.__file__).parent}/"
        self.env = {"PYTHONPATH": str(ROOT / "tests/support/flow"), "ROTA_TEST_FLOW": watched, **PERIODIC}
        self._count = 0

    @contextmanager
    def window(self, threads: dict[int, tuple[str, str]]) -> Iterator[Window]:
        """Record during the block. `threads` are the names of threads by process; all others are workers."""
        window = Window()
        self._count += 1
        self._set(self._count)
        try:
            yield window
        finally:
            self._set(0)
        self._read(window, self._count, threads)

    def _set(self, number: int) -> None:
        with self._switch.open("r+b") as switch:  # in place, since every process has mapped it
            switch.write(bytes([number]))

    def _read(self, window: Window, number: int, threads: dict[int, tuple[str, str]]) -> None:
        for record in self._records.read_text().splitlines():
            count, pid, thread, file, line, function = record.split(" ", 5)
            if int(count) != number:
                continue
            if function:
                main, other = threads.get(int(pid), WORKER)
                window.steps.append(Step(main if pid == thread else other, file, function))
            else:
                window.lines[file].add(int(line))


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "recording")


@pytest.fixture
def crew(recording: Recording, tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path, ROTA_HTTP_PORT="0", **recording.env)
    yield crew
    crew.end()


def test_a_job_goes_the_way_that_its_page_lists(crew: Crew, recording: Recording) -> None:
    crew.start("tag=2", http=True)
    eventually(lambda: crew.up(3), within=60)
    (api,) = (worker.pid for worker in crew.app.workers.list() if worker.slot == "http:0")
    with application(crew) as program, crew.api() as client:
        threads = {crew.pid: ORCHESTRATOR, api or 0: API, program.pid: APPLICATION}
        with client.stream("GET", "/api/v1/events", params={"topics": "queue:tag:jobs"}) as answer:
            changes = (json.loads(line[5:]) for line in answer.iter_lines() if line.startswith("data: {"))

            def run_a_job(window: AbstractContextManager[Window]) -> Window:
                """Add a job, and wait until the feed has told that it is done."""
                with window as recorded:
                    id = add(program)
                    assert any(is_done(change, id) for change in changes), "the feed has ended"
                return recorded

            for _ in range(ENOUGH):  # so that every process is warm
                run_a_job(nullcontext(Window()))
            idle = idle_window(recording, threads)
            windows = (run_a_job(recording.window(threads)) for _ in range(MOST_RUNS))
            compare("One job", MOST_FILES_OF_A_JOB, windows, idle)


def test_a_death_goes_the_way_that_its_page_lists(crew: Crew, recording: Recording) -> None:
    crew.start(f"tag={WORKERS}")
    eventually(lambda: crew.up(WORKERS), within=60)
    threads = {crew.pid: ORCHESTRATOR}

    def kill_a_worker(window: AbstractContextManager[Window]) -> Window:
        """Kill the worker amid a job, and wait until another runs the job and the slot waits for its next start."""
        decisions = len(crew.said("starts again in"))
        name = f"hold-{decisions}"
        crew.add("hold", name=name)
        pid = eventually(lambda: crew.held_by(name))
        with window as recorded:
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: crew.held_by(name) not in (0, pid) and len(crew.said("starts again in")) > decisions)
        crew.let_go(name)
        return recorded

    kill_a_worker(nullcontext(Window()))  # so that every process is warm
    eventually(lambda: crew.up(WORKERS), within=60)
    idle = idle_window(recording, threads)
    windows = (kill_a_worker(recording.window(threads)) for _ in range(MOST_RUNS))
    compare("One death", MOST_FILES_OF_A_DEATH, windows, idle)


def idle_window(recording: Recording, threads: dict[int, tuple[str, str]]) -> Window:
    """Return what runs anyway."""
    until = time.monotonic() + IDLE
    with recording.window(threads) as window:
        eventually(lambda: time.monotonic() > until)
    return window


@contextmanager
def application(crew: Crew) -> Iterator[subprocess.Popen[str]]:
    """A process that adds jobs."""
    env = environment(**crew.env, ROTA_DB=crew.app.store.database.url)
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(
        command, cwd=crew.folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        yield program
        program.communicate(timeout=60)


def add(program: subprocess.Popen[str]) -> int:
    assert program.stdin is not None and program.stdout is not None
    print(1, file=program.stdin, flush=True)
    return int(program.stdout.readline())


def is_done(change: dict[str, Any], id: int) -> bool:
    job = change.get("job", {})
    return bool(job.get("id") == id and job.get("status") == "done")


def chapter(heading: str) -> list[Table]:
    """Return the tables in a chapter of the page, each of which has a heading of its own."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    tables = [(part.startswith("Meanwhile"), part.split("|---|---|---|\n")) for part in text.split("\n### ")[1:]]
    return [Table(is_meanwhile, [step(row) for row in rows.splitlines()]) for is_meanwhile, (_, rows) in tables]


def step(row: str) -> Step:
    cells = re.fullmatch(r"\| ([\w ]+) \| `([\w/]+\.py)` `([\w.]+)` \| .+ \|", row)
    assert cells is not None, row
    return Step(*cells.groups())


def compare(heading: str, most_files: int, runs: Iterator[Window], idle: Window) -> None:
    """Hold what runs against a chapter of the page, until enough runs went the way that it lists."""
    tables = chapter(heading)
    files = {step.file for table in tables for step in table.steps}
    assert len(files) <= most_files
    orderly: list[Window] = []
    strays: list[tuple[Step, Window]] = []
    while len(orderly) < ENOUGH and (window := next(runs, None)) is not None:
        missing = window.missing(tables)
        if missing is None:
            orderly.append(window)
        else:
            strays.append((missing, window))
    if len(orderly) < ENOUGH:
        namesakes = {other for step, window in strays for other in window.steps if other.name == step.name}
        pytest.fail(f"not after the steps before it: { ({step for step, _ in strays}) }; of that name ran: {namesakes}")
    others = set().union(*(window.lines for window in orderly)) - files
    lines = {file: set.intersection(*(window.lines[file] for window in orderly)) - idle.lines[file] for file in others}
    unlisted = {file: sorted(ran) for file, ran in lines.items() if len(ran) > MOST_LINES}
    assert not unlisted, "list these files, or keep them out of the way"
