"""Commands: what they are told, what is kept of what they write, what their exit means, and how they are ended."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from rota.core.frames import codec as frames
from rota.core.times import SECOND
from rota.process.host import since_boot
from tests.support.crews import is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.worker.driven import Driven

RUN = "run-00000001"


def declared(*argv: str, **options: str) -> str:
    """A command named `cmd` in the application."""
    more = "".join(f", {name}={value!r}" for name, value in options.items())
    return f"\n@app.command(argv={list(argv)!r}{more})\ndef cmd(path=None): ...\n"


def script(text: str) -> str:
    return declared("sh", "-c", text.replace("{", "{{").replace("}", "}}"))


def output(worker: Driven, stream: str = "out", run: str = RUN) -> bytes:
    return (worker.folder / "runs" / f"{run}.{stream}").read_bytes()


def ended(worker: Driven, payload: str | None = None, **more: object) -> dict[str, Any]:
    """What becomes of one job that the command runs for."""
    job = worker.job("cmd", payload, **more)
    worker.run(job)
    return worker.done(job)[0]


def test_it_says_hello_with_what_it_needs(start: Callable[..., Driven]) -> None:
    worker = start(script("true") + "\n@app.task()\nasync def fetch(): ...\n")
    hello = worker.next(frames.HELLO)
    assert (hello["concurrency"], hello["cancels"], hello["whole"]) == (1, ["cmd", "fetch"], ["cmd"])


def test_it_reads_the_job_and_finds_its_claim_in_its_environment(start: Callable[..., Driven]) -> None:
    worker = start(script("cat; echo; env"), ROTA_LEASE="9m").is_up()
    whole = {"id": 101, "title": "t", "queue": "default", "payload": None, "status": "active", "note": "n"}
    assert ended(worker, '{"ROTA_DB":"x","path":"é"}', whole=whole)["outcome"] == "done"
    document, environment = output(worker).decode().split("\n\n", 1)
    more: dict[str, Any] = {"checkpoint": None, "previous_runs": []}
    assert json.loads(document) == {**whole, "payload": {"ROTA_DB": "x", "path": "é"}, **more}
    told = dict(line.split("=", 1) for line in environment.splitlines() if line.startswith("ROTA_"))
    assert told == {
        "ROTA_JOB_ID": "101",
        "ROTA_CLAIM_TOKEN": "1",
        "ROTA_RUN_ID": RUN,
        "ROTA_WORKER_ID": "worker-00000001",
        "ROTA_DB": str(worker.folder / "rota.db"),
        "ROTA_LEASE": "9m",
    }


HOSTILE = ["; touch owned", "$(touch owned)", "`touch owned`", "a\nb", "'\"", "*", "é\u202e", "--help", "-x", "\x1b[2J"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_data_stays_one_argument_and_reaches_no_environment(start: Callable[..., Driven], text: str) -> None:
    show = 'import json, os, sys; print(json.dumps([sys.argv[1:], [v for v in os.environ.values() if "MARK" in v]]))'
    worker = start(declared("python3", "-c", show, "t={title}", "./{payload.path}")).is_up()
    done = ended(worker, json.dumps({"path": f"MARK{text}", "ROTA_JOB_ID": "MARK"}), title=text)
    assert json.loads(done["result"]) == [[f"t={text}", f"./MARK{text}"], []]
    assert not (worker.folder / "owned").exists()


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ('{"path":"-rf"}', "would begin with a dash because of the data"),
        ("{}", "the job has no payload.path"),
        (None, "the job has no payload.path"),
        ('{"path":"a\\u0000b"}', "would hold a zero character"),
        ('{"path":"\\ud800"}', "half of a surrogate pair"),
        ("NaN", "the payload cannot be read: NaN is not JSON"),
    ],
)
def test_data_that_does_not_fit_fails_for_good(start: Callable[..., Driven], payload: str | None, error: str) -> None:
    done = ended(start(declared("echo", "{payload.path}")).is_up(), payload)
    assert (done["outcome"], done["again"]) == ("failed", False)
    assert error in done["error"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("exit 0", {"outcome": "done", "result": None}),
        ("echo a; echo '{\"n\":1}'", {"outcome": "done", "result": '{"n":1}'}),
        ("printf '[1]\\n\\n'", {"outcome": "done", "result": "[1]"}),
        ("echo '{'", {"outcome": "done", "result": None}),
        ("echo NaN", {"outcome": "done", "result": None}),
        ("printf '\\377'", {"outcome": "done", "result": None}),
        ("exit 75", {"outcome": "snoozed", "delay": 60_000_000}),
        (
            "echo no >&2; exit 3",
            {"outcome": "failed", "error": "the command ended with exit code 3: no", "again": True},
        ),
        ("exit 1", {"outcome": "failed", "error": "the command ended with exit code 1"}),
        ("kill -9 $$", {"outcome": "failed", "error": "the command was ended by signal 9"}),
        ("exit 139", {"outcome": "failed", "error": "the command was ended by signal 11"}),
        ("printf 'a\\033[2Jb' >&2; exit 2", {"error": "the command ended with exit code 2: a\ufffd[2Jb"}),
    ],
)
def test_what_its_exit_means(start: Callable[..., Driven], text: str, told: dict[str, Any]) -> None:
    assert told.items() <= ended(start(script(text)).is_up()).items()


def test_one_that_cannot_be_started_fails_for_good(start: Callable[..., Driven]) -> None:
    done = ended(start(declared("./gone")).is_up())
    assert (done["error"], done["again"]) == ("./gone cannot be started: No such file or directory", False)


def test_only_the_end_of_a_long_complaint_is_told(start: Callable[..., Driven]) -> None:
    worker = start(script("yes error | head -c 100000 >&2; echo last >&2; exit 1")).is_up()
    error = ended(worker)["error"]
    assert error.endswith("last") and len(error) < 2200
    assert len(output(worker, "err")) == 100_005


def test_a_binary_is_kept_as_it_is(start: Callable[..., Driven]) -> None:
    worker = start(script("head -c 300000 /dev/zero; printf '\\377\\000\\n\\r'; head -c 5 /dev/zero >&2")).is_up()
    assert ended(worker)["outcome"] == "done"
    assert output(worker) == bytes(300_000) + b"\xff\0\n\r"
    assert output(worker, "err") == bytes(5)


def test_100_mb_without_a_newline_are_cut_counted_and_never_block(start: Callable[..., Driven]) -> None:
    worker = start(script("head -c 100000000 /dev/zero | tr '\\0' x"), ROTA_CAPTURE_LIMIT="2").is_up()
    job = worker.job("cmd")
    worker.run(job)
    log = worker.next(frames.LOG)["message"]
    assert log == "stdout was kept up to its limit: 98,000,000 of 100,000,000 bytes were dropped"
    assert worker.done(job)[0]["result"] is None
    assert output(worker) == b"x" * 2_000_000


def test_captures_are_ours_alone_and_never_follow_a_link(start: Callable[..., Driven], tmp_path: Path) -> None:
    worker = start(script("echo mine")).is_up()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "runs").mkdir(0o755)
    (tmp_path / "runs" / f"{RUN}.out").symlink_to(tmp_path / "victim")
    assert ended(worker)["outcome"] == "done"
    assert (tmp_path / "victim").read_text() == "precious"
    found = (tmp_path / "runs" / f"{RUN}.out").lstat()
    assert (found.st_mode & 0o170777) == 0o100600
    assert output(worker) == b"mine\n"


def test_a_folder_that_is_a_link_fails_the_run(start: Callable[..., Driven], tmp_path: Path) -> None:
    worker = start(script("true")).is_up()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "elsewhere")
    assert "cannot be kept" in ended(worker)["error"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_folder_is_made_for_us_alone(start: Callable[..., Driven], tmp_path: Path) -> None:
    ended(start(script("true")).is_up())
    assert (tmp_path / "runs").stat().st_mode & 0o777 == 0o700


def test_a_job_larger_than_a_pipe_that_nobody_reads_blocks_nobody(start: Callable[..., Driven]) -> None:
    worker = start(script("wc -c") + declared("true").replace("def cmd", "def deaf")).is_up()
    jobs = [worker.job(kind, json.dumps({"path": "x" * 250_000})) for kind in ("deaf", "cmd")]
    worker.run(*jobs)
    _, counted = worker.done(*jobs)
    assert int(counted["result"]) > 250_000


HOLDS = """
trap 'echo polite > ended; exit 1' TERM
setsid sleep 1000 & echo $! > away
sleep 1000 & echo $! > child
echo $$ > leader
while :; do sleep 0.05; done
"""


def pids(worker: Driven, *names: str) -> list[int]:
    def read() -> list[int]:
        return [int((worker.folder / name).read_text() or 0) for name in names]

    eventually(lambda: all((worker.folder / name).exists() for name in names) and all(read()))
    return read()


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("deadline", {"outcome": "failed", "error": "ran past its time-out", "reason": "timeout", "again": True}),
        ("cancelled", {"outcome": "released", "note": "called off"}),
    ],
)
def test_a_cancelled_one_is_asked_first_and_its_children_end_too(
    start: Callable[..., Driven], reason: str, told: dict[str, Any]
) -> None:
    worker = start(script(HOLDS)).is_up()
    job, after = worker.job("cmd"), worker.job("double", '{"n":2}')
    worker.run(job, after)
    leader, child, away = pids(worker, "leader", "child", "away")
    eventually(lambda: os.getsid(away) == away)
    worker.send(frames.CANCEL, token=job["token"], reason=reason)
    assert told.items() <= worker.done(job)[0].items()
    assert (worker.folder / "ended").read_text() == "polite\n"
    assert worker.done(after)[0]["result"] == "4", "the worker lives on"
    eventually(lambda: not is_alive(leader) and not is_alive(child))
    os.kill(away, signal.SIGKILL)  # it left the session: its orchestrator would find it


def test_one_that_ignores_term_is_killed(start: Callable[..., Driven]) -> None:
    worker = start(script("trap '' TERM; echo $$ > leader; while :; do sleep 0.05; done")).is_up()
    job = worker.job("cmd")
    worker.run(job)
    (leader,) = pids(worker, "leader")
    worker.send(frames.CANCEL, token=job["token"], reason="cancelled")
    assert worker.done(job)[0]["outcome"] == "released"
    assert not is_alive(leader)


def test_a_shell_with_job_control_leaves_nothing_either(start: Callable[..., Driven]) -> None:
    worker = start(declared("bash", "-c", "set -m; sleep 1000 & echo $! > child; exit 0")).is_up()
    assert ended(worker)["outcome"] == "done"
    (child,) = pids(worker, "child")
    eventually(lambda: not is_alive(child))


def test_stop_now_ends_it_and_gives_the_job_back(start: Callable[..., Driven]) -> None:
    worker = start(script(HOLDS.replace("setsid sleep 1000 & echo $! > away", ""))).is_up()
    job = worker.job("cmd")
    worker.run(job)
    (leader,) = pids(worker, "leader")
    worker.send(frames.STOP, now=False)
    worker.next(frames.HEALTH, status="stopping")
    assert is_alive(leader), "it has time to finish"
    worker.send(frames.STOP, now=True)
    assert worker.done(job)[0]["outcome"] == "released"
    assert worker.wait() == 0
    assert not is_alive(leader)


def test_a_cancel_for_another_token_changes_nothing(start: Callable[..., Driven]) -> None:
    worker = start(script("echo $$ > leader; while [ ! -e go ]; do sleep 0.02; done")).is_up()
    job = worker.job("cmd")
    worker.run(job)
    pids(worker, "leader")
    worker.send(frames.CANCEL, token=99, reason="cancelled")
    worker.send(frames.CANCEL)
    (worker.folder / "go").touch()
    assert worker.done(job)[0]["outcome"] == "done"


def test_a_fenced_one_ends_with_its_worker_when_nobody_renews(start: Callable[..., Driven]) -> None:
    worker = start(script("echo $$ > leader; while :; do sleep 0.05; done")).is_up()
    worker.run(worker.job("cmd", fence="end"), renewed_at=since_boot() - 8 * SECOND)
    (leader,) = pids(worker, "leader")
    assert worker.wait() == -signal.SIGKILL
    eventually(lambda: not is_alive(leader))
