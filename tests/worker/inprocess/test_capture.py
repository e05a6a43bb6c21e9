"""`capture_io` names the files, the handler writes them, rota records where they are, and `rota logs` shows them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import rota
from rota import App, NewJob
from rota.core.times import DAY
from rota.settings import Settings
from tests.cli.test_output import on_terminal
from tests.support.eventually import eventually
from tests.support.shell import ROTA, environment
from tests.worker.inprocess.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITE = """
def capture_io(run_id, job):
    return {"transcript_path": f"out/{run_id}.jsonl", "stderr_path": Path("out") / f"{run_id}.stderr"}

def execute(job, ctx):
    with open(f"out/{ctx.run_id}.jsonl", "w", buffering=1) as transcript:
        transcript.write(f"attempt {ctx.attempt}\\n")
        note(f"began {ctx.attempt}")
        wait_for(f"go-{ctx.attempt}")
        transcript.write("the rest\\n")
    Path(f"out/{ctx.run_id}.stderr").write_text("some errors\\n")
    return {"success": ctx.attempt > 1, "error": "the first attempt fails"}

rota.run_worker(execute, capture_io=capture_io)
"""
QUICK = {"ROTA_BACKOFF_FIRST": "1ms", "ROTA_BACKOFF_MOST": "1ms"}
NOT_FOUND = 3
# A small process between: what is started by a large one counts as large itself.
MEASURED = """
import resource, subprocess, sys

code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def app(url: str) -> Iterator[App]:
    """An app whose failed jobs come back so late that no test meets them again."""
    app = App(url, Settings(backoff_first=DAY, backoff_most=DAY))
    yield app
    app.close()


def captured(workshop: Workshop, content: bytes, stream: str = "transcript_path") -> tuple[int, Path]:
    """A job whose run wrote this."""
    path = workshop.folder / "captured"
    path.write_bytes(content)
    id = workshop.add()
    app = App(workshop.url)
    rota.run_worker(lambda job, ctx: None, app=app, capture_io=lambda run_id, job: {stream: path}, limit=1)
    app.close()
    return id, path


@pytest.mark.parametrize("number", range(4))
def test_the_paths_are_recorded_as_absolute_ones(app: App, tmp_path: Path, number: int) -> None:
    here = Path.cwd()
    answer, expected = [
        ({"transcript_path": tmp_path / "new/folder/a.out"}, (f"{tmp_path}/new/folder/a.out", None)),
        ({"stderr_path": os.path.relpath(tmp_path / "a.err")}, (None, f"{tmp_path}/a.err")),
        (SimpleNamespace(transcript_path=str(tmp_path / "b"), stderr_path=None), (f"{tmp_path}/b", None)),
        (None, (None, None)),
    ][number]
    asked: list[Any] = []

    def capture_io(run_id: str, job: rota.Job) -> Any:
        asked.append((run_id, job.id))
        return answer

    id = app.enqueue(NewJob("a job")).id
    rota.run_worker(lambda job, ctx: None, app=app, capture_io=capture_io, limit=1)
    (run,) = app.claims.runs(id)
    assert (run.transcript_path, run.stderr_path) == expected
    assert asked == [(run.id, id)] and Path.cwd() == here
    assert number or (tmp_path / "new/folder").is_dir(), "the handler only has to open its files"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            {"transcriptPath": "a"},
            "BadInput: capture_io names 'transcriptPath': it may name transcript_path and stderr_",
        ),
        ("a.out", "BadInput: capture_io answered 'a.out': it must name transcript_path and stderr_path, or be None"),
        ({"stderr_path": 7}, "BadInput: stderr_path of capture_io must be a path of at most 4096 characters, not 7"),
        ({"stderr_path": ""}, "BadInput: stderr_path of capture_io must be a path"),
        ({"stderr_path": "a\0b"}, "BadInput: stderr_path of capture_io must be a path"),
        (
            {"transcript_path": "/dev/null/a"},
            "BadInput: capture_io names a file in /dev/null, which is no folder: File",
        ),
    ],
)
def test_a_mistake_in_it_is_a_failed_run_and_execute_is_not_called(app: App, answer: Any, error: str) -> None:
    called: list[object] = []
    id = app.enqueue(NewJob("a job")).id
    rota.run_worker(lambda job, ctx: called.append(job), app=app, capture_io=lambda run_id, job: answer, limit=1)
    assert (app.jobs.get(id).error or "").startswith(error), app.jobs.get(id).error
    assert called == []


def test_each_run_has_its_own_output(workshop: Workshop) -> None:
    workshop.touch("go-1")
    workshop.touch("go-2")
    workshop.start(WRITE, **QUICK)
    id = workshop.add()
    workshop.ends(id)
    first, second = workshop.shell.ask("runs", id)

    assert first["transcript_path"] == f"{workshop.folder}/out/{first['id']}.jsonl"
    assert workshop.shell.say("logs", id) == "attempt 2\nthe rest"
    assert workshop.shell.say("logs", id, "--run", first["id"]) == "attempt 1\nthe rest"
    assert workshop.shell.say("logs", id, "--stderr") == "some errors"
    assert workshop.shell.ask("logs", id) == {
        "job_id": id,
        "run_id": second["id"],
        "stream": "transcript",
        "path": second["transcript_path"],
        "size": 19,
        "text": "attempt 2\nthe rest\n",
    }


def test_a_killed_runs_output_is_kept_where_it_is(workshop: Workshop) -> None:
    script = workshop.start(WRITE)
    id = workshop.add(max_attempts=1)
    workshop.noted("began 1")
    assert workshop.shell.say("logs", id) == "attempt 1", "readable while it runs"
    script.signal(signal.SIGKILL)
    script.ended()
    eventually(lambda: workshop.store.reconcile().dead_workers_found)

    assert workshop.job(id).status == "failed"
    assert workshop.shell.say("logs", id) == "attempt 1"


def test_follow_shows_what_is_written_as_it_is_until_the_run_is_over(workshop: Workshop) -> None:
    workshop.start(WRITE)
    id = workshop.add(max_attempts=1)
    workshop.noted("began 1")
    following = workshop.shell.start("logs", id, "--follow")
    assert following.stdout is not None
    assert following.stdout.readline() == "attempt 1\n"
    assert following.poll() is None
    workshop.touch("go-1")

    assert following.communicate(timeout=60) == ("the rest\n", "")
    assert following.returncode == 0


def test_follow_waits_for_a_file_that_is_not_there_yet(workshop: Workshop) -> None:
    workshop.start(WRITE)
    id = workshop.add(max_attempts=1)
    workshop.noted("began 1")
    following = workshop.shell.start("logs", id, "--stderr", "--follow")
    assert workshop.shell.refuse("logs", id, "--stderr", code=NOT_FOUND).endswith("is not there yet")
    workshop.touch("go-1")

    assert following.communicate(timeout=60) == ("some errors\n", "")


def test_follow_of_a_file_that_never_came_says_so(workshop: Workshop) -> None:
    id, path = captured(workshop, b"")
    path.unlink()

    assert workshop.shell.refuse("logs", id, "--follow", code=NOT_FOUND) == workshop.shell.refuse(
        "logs", id, code=NOT_FOUND
    )


def test_follow_ends_when_the_worker_is_dead(workshop: Workshop) -> None:
    script = workshop.start(WRITE)
    id = workshop.add(max_attempts=1)
    workshop.noted("began 1")
    following = workshop.shell.start("logs", id, "--follow")
    script.signal(signal.SIGKILL)

    assert following.communicate(timeout=60) == ("attempt 1\n", "")


def test_what_there_is_not_is_said(workshop: Workshop) -> None:
    waiting = workshop.add()
    assert workshop.shell.refuse("logs", waiting, code=NOT_FOUND) == f"job {waiting} has not run yet"
    workshop.shell.say("done", waiting, "--force")
    id, path = captured(workshop, b"text")
    run = workshop.store.claims.captured(id).run_id
    assert workshop.shell.refuse("logs", id, "--stderr", code=NOT_FOUND) == (
        f"{run} did not say where it writes its stderr: its capture_io names that"
    )
    assert f"job {id} has no run-x: its last run is {run}" == workshop.shell.refuse(
        "logs", id, "--run", "run-x", code=NOT_FOUND
    )
    path.unlink()
    assert workshop.shell.refuse("logs", id, code=NOT_FOUND) == f"{path}, the transcript of {run}, is gone"
    os.mkfifo(path)
    assert "is not a regular file" in workshop.shell.refuse("logs", id, code=1)
    assert "leave one of them out" in workshop.shell.refuse("logs", id, "--follow", "--json", code=2)


def test_bytes_reach_a_pipe_as_they_are_and_a_terminal_as_text_that_cannot_steer_it(workshop: Workshop) -> None:
    nasty = b"\x1b[31mred\x07\x00\xff\xfe\x9b2J \xe2\x80\xae no newline\r\nb\xc3\xa4r\tend"
    id, path = captured(workshop, nasty)
    with os.popen(f"'{ROTA}' --db '{workshop.url}' logs {id} | cmp - '{path}' && echo same") as same:
        assert same.read() == "same\n"
    shown = on_terminal(workshop.shell, "logs", id)
    assert all(letter.isprintable() or letter in "\r\n" for letter in shown), shown  # a terminal adds the \r itself
    assert "red" in shown and "no newline" in shown and "bär end" in shown
    assert workshop.shell.ask("logs", id)["text"] == nasty.decode("utf-8", "replace")


def test_a_hundred_megabytes_are_read_a_piece_at_a_time(workshop: Workshop) -> None:
    id, path = captured(workshop, b"")
    os.truncate(path, 100 * 2**20)
    words = [sys.executable, "-c", MEASURED, ROTA, "--db", workshop.url, "logs", str(id)]
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        total = 0
        while data := process.stdout.read(2**20):
            total += len(data)
        peak = int(process.stderr.read())

    assert (process.returncode, total) == (0, 100 * 2**20)
    assert peak < 60 * 1024, "kilobytes"
    answer = workshop.shell.ask("logs", id)
    assert (answer["size"], len(answer["text"])) == (100 * 2**20, 256 * 1024)


def test_a_path_is_what_capture_io_said_whatever_the_job_says(workshop: Workshop) -> None:
    hostile = {"transcript_path": "/etc/passwd", "stderr_path": "../../etc/passwd"}
    workshop.touch("go-1")
    workshop.start(WRITE)
    id = workshop.add("../../etc/passwd", payload=hostile, max_attempts=1, kind="/etc/passwd")
    workshop.ends(id, "failed")
    (run,) = workshop.store.claims.runs(id)

    assert re.fullmatch(rf"{workshop.folder}/out/run-[0-9a-z]{{8}}\.jsonl", run.transcript_path or "")
    assert workshop.shell.say("logs", id) == "attempt 1\nthe rest"


async def slowly(run_id: str) -> dict[str, str]:
    return {"transcript_path": f"/tmp/{run_id}"}


@pytest.mark.parametrize(
    "capture_io",
    [
        lambda run_id: {"transcript_path": f"/tmp/{run_id}"},
        lambda run_id, job=None: {"transcript_path": f"/tmp/{run_id}"} if job else None,
        lambda *both: {"transcript_path": f"/tmp/{both[0]}"},
        slowly,
    ],
    ids=["its id alone", "a default", "any number", "a coroutine"],
)
def test_capture_io_may_take_the_run_alone_and_may_be_a_coroutine(app: App, capture_io: Any) -> None:
    id = app.enqueue(NewJob("a job")).id
    rota.run_worker(lambda job, ctx: "said", app=app, capture_io=capture_io, limit=1)
    (run,) = app.claims.runs(id)
    assert (run.status, run.transcript_path) == ("completed", f"/tmp/{run.id}")
