"""Whatever comes over a worker's pipe, and when nobody reads it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from rota.core.job import NewJob
from tests.support.crews import children, is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

QUICK = {"ROTA_FRAME_INTERVAL": "50ms", "ROTA_SILENT_INTERVAL": "200ms"}
BABBLE = r'''
import pickle, random, socket, threading

PIPE = int(os.environ["ROTA_FRAME_FD"])


class Evil:
    """Whoever unpickles it leaves a mark."""

    def __reduce__(self):
        return open, (str(here / "unpickled"), "w")


RUBBISH = {
    "random": [random.Random(n).randbytes(4096) + b"\n" for n in range(200)],
    "length": [b"1073741824\n", b"1073741824|", *[b"x" * 1_000_000] * 64, b"\n"],
    "half": [b'HEALTH|{"status": "heal'],
    "tiny": [b"HEALTH|{}\n" * 1000],
    "deep": [b'LOG|{"message":' + b"[" * depth + b"]" * depth + b"}\n" for depth in range(1, 2000, 3)]
    + [b'HELLO|{"protocol":' + b"[" * depth + b"]" * depth + b"}\n" for depth in (30_000, 300_000)],
    "nan": [b'PROGRESS|{"done":NaN,"total":Infinity}\n', b'HEALTH|{"recover_for_s":-Infinity}\n'],
    "utf8": [b'LOG|{"message":"\xff\xfe"}\n', b"\xc3|{}\n", b'LOG|{"message":"\\ud800"}\n'],
    "pickle": [pickle.dumps(Evil(), protocol) + b"\n" for protocol in range(6)]
    + [b"DONE|" + pickle.dumps(Evil(), 0).replace(b"\n", b" ") + b"\n"],
    "list": [b"HEALTH|[1,2]\n", b"DONE|7\n", b'DONE|{"token":[1]}\n', b'RETURNED|{"tokens":"x"}\n', b"\n" * 999],
}


def write(pipe, data):
    while data:
        try:
            data = data[pipe.send(data):]
        except BlockingIOError:
            time.sleep(0.001)


@app.task(queue="tag")
def babble(what: str) -> int:
    """Write on the pipe what no worker would, those without end until the test lets it go."""
    pipe = socket.socket(fileno=os.dup(PIPE))
    note(f"hold babble {os.getpid()}")
    while True:
        for data in RUBBISH[what]:
            write(pipe, data)
        note("babbled")
        while what != "tiny" and not (here / "go-babble").exists():
            time.sleep(0.005)
        if (here / "go-babble").exists():
            write(pipe, b"\n")
            pipe.close()
            return os.getpid()


kept = socket.socketpair()


def say_nothing_but_rubbish():
    """Once the test says so, take the pipe away from the worker."""
    while not (here / "go-rubbish").exists():
        time.sleep(0.005)
    pipe = socket.socket(fileno=os.dup(PIPE))
    os.dup2(kept[0].fileno(), PIPE)
    while True:
        write(pipe, (here / "go-rubbish").read_bytes())
        time.sleep(0.02)


@app.setup(queue="mad")
def go_mad():
    threading.Thread(target=say_nothing_but_rubbish, daemon=True).start()


@app.task(queue="tag")
def talk(megabytes: int, ctx) -> None:
    note(f"hold talk {os.getpid()}")
    while not (here / "go-talk").exists():
        time.sleep(0.005)
    for n in range(megabytes * 250):
        ctx.log(f"{n} " + "x" * 4000)
        ctx.progress(n, megabytes * 250)
    note("talked")
'''
LEAST = {"random": 200, "list": 500}
KINDS = ("random", "length", "half", "tiny", "deep", "nan", "utf8", "pickle", "list")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_frame_is_ignored_and_the_other_workers_are_unaffected(crew: Crew, kind: str) -> None:
    """Fault 25: rubbish of each kind, tiny frames without end; a half line is ended before the worker's own report."""
    crew.teach(BABBLE)
    crew.start("tag=2")
    eventually(lambda: crew.up(2))
    workers, before = set(children(crew.pid)), memory(crew)
    rubbish = crew.add("babble", what=kind)
    turns = 1000 if kind == "tiny" and "ROTA_DB" not in crew.env else 1  # of a thousand frames; once is enough
    eventually(lambda: crew.ledger().count("babbled") >= turns, within=100)
    ids = [crew.add("tag", n=n) for n in range(5)]
    done = crew.done(*ids)
    assert [(job.attempts, job.result) for job in done] == [(1, n) for n in range(5)]
    assert crew.app.jobs.get(rubbish).status == "active", "it goes on meanwhile"
    crew.let_go("babble")
    assert crew.done(rubbish)[0].result in workers
    assert set(children(crew.pid)) == workers, "nobody died of it"
    assert memory(crew) - before < 16_000, "the orchestrator keeps nothing of it"
    counted = [int(line.split()[-1]) for line in crew.said("wrote what is no frame")]
    assert counted[-1] > LEAST.get(kind, 0) and len(counted) < 20, "counted, and told whenever it has doubled"
    assert not (crew.folder / "unpickled").exists()
    assert crew.stop() == 0


HOSTILE = r"""
import json, os, pathlib, re, socket, sys

pipe, what = socket.socket(fileno=int(os.environ["ROTA_FRAME_FD"])), sys.argv[1]
pipe.setblocking(True)
pipe.sendall(b'HELLO|{"protocol":1,"tasks":true}\nHEALTH|{"status":"healthy","current_job":null}\n')
heard = b""
while b"RUN|" not in heard:
    heard += pipe.recv(65536)
token = int(re.search(rb'"token":(\d+)', heard)[1])
schedule = {"timezone": "UTC", "missed": "once", "queue": "tag", "kind": "x", "priority": 0, "cron": "0 2 * * *"}
body = {
    "checkpoints": {"token": token, "checkpoint": json.dumps("x" * 200_000)},
    "hellos": {"protocol": 1, "schedules": [{"name": f"s{n}", **schedule} for n in range(999)]},
    "doubts": {"status": "healthy", "in_hand": []},
    "numbers": {"status": "recovering", "recover_for_s": 10**4000, "cpu": 10**4000, "current_job": 10**4000},
    "others": {"token": 10**30, "tokens": [*range(token), 10**30], "outcome": "done", "result": "1"},
}[what]
kinds = {"checkpoints": ["CHECKPOINT"], "hellos": ["HELLO"], "others": ["DONE", "CHECKPOINT", "RETURNED"]}
text = "".join(f"{kind}|{json.dumps(body)}\n" for kind in kinds.get(what, ["HEALTH"])).encode()
text = b'HEALTH|{"status":"healthy"}\n' + text * max(1, 200_000 // len(text))
said = 0
socket.send_fds(pipe, [b"\n"], [0, 1, 2])
while True:
    said += pipe.send(text)
    if said > 8_000_000:
        pathlib.Path(f"flooded-{what}").touch()
"""
FLOODS = ("checkpoints", "hellos", "doubts", "numbers", "others")


def test_a_worker_that_floods_and_reads_nothing_takes_no_memory_and_slows_no_other(crew: Crew) -> None:
    """Frames that are right, from a program of its own: only the last counts of those that replace each other."""
    (crew.folder / "hostile.py").write_text(HOSTILE)
    programs = [
        word for what in FLOODS for word in ("--program", f"{what}={shlex.quote(sys.executable)} hostile.py {what}")
    ]
    crew.env |= {"ROTA_RESTART_BACKOFF": "30s", "ROTA_SHUTDOWN_TIMEOUT": "500ms"}
    crew.start("tag=1", *programs)
    eventually(lambda: crew.up(1 + len(FLOODS)))
    before, descriptors = memory(crew), len(os.listdir(f"/proc/{crew.pid}/fd"))
    for what in FLOODS:
        crew.app.jobs.add(NewJob(what, queue=what, kind="any"))
    eventually(lambda: len(list(crew.folder.glob("flooded-*"))) == len(FLOODS), within=60)
    assert [job.attempts for job in crew.done(*[crew.add("tag", n=n) for n in range(5)])] == [1] * 5
    assert memory(crew) - before < 16_000, "the orchestrator keeps nothing of it"
    assert len(os.listdir(f"/proc/{crew.pid}/fd")) <= descriptors, "nor any descriptor that it is handed"
    assert crew.stop() == 0


def memory(crew: Crew) -> int:
    """The most that the orchestrator ever had in memory, in kB."""
    with open(f"/proc/{crew.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


@pytest.mark.parametrize("rubbish", ["la la la", "HEALTH|{}", 'HEALTH|{"status":"fine"}'])
def test_a_worker_that_says_nothing_but_rubbish_dies_of_that(crew: Crew, rubbish: str) -> None:
    """Fault 25."""
    crew.teach(BABBLE)
    crew.env |= QUICK
    crew.start("mad=1", "--pool", "tag=1")
    eventually(lambda: crew.up(2))
    before = children(crew.pid)
    (crew.folder / "rubbish").write_text(f"{rubbish}\n")
    (crew.folder / "rubbish").rename(crew.folder / "go-rubbish")
    (mad,) = eventually(lambda: [pid for pid in before if not is_alive(pid)])
    (certificate,) = eventually(crew.deaths)
    assert (certificate.reason, certificate.slot) == ("invalid_frames", "worker:mad:0")
    crew.done(crew.add("tag", n=1))
    assert all(is_alive(pid) for pid in before if pid != mad), "the other one lives"


def test_while_the_orchestrator_is_stopped_a_talking_handler_is_not_blocked_and_no_outcome_is_lost(crew: Crew) -> None:
    """Fault 26: megabytes of log lines are dropped whole; the outcome waits, and is settled once it is read."""
    crew.teach(BABBLE)
    crew.start("tag=2")
    talking, holding = crew.add("talk", megabytes=4), crew.add("hold", name="b")
    held = [eventually(lambda name=name: crew.held_by(name)) for name in ("talk", "b")]  # type: ignore[misc]
    os.kill(crew.pid, signal.SIGSTOP)
    crew.let_go("talk")
    eventually(lambda: "talked" in crew.ledger())
    crew.let_go("b")
    assert crew.app.jobs.get(talking).status == "active"
    os.kill(crew.pid, signal.SIGCONT)
    done = crew.done(talking, holding)
    assert [(job.attempts, job.deaths) for job in done] == [(1, 0)] * 2
    assert all(map(is_alive, held))
    lines = crew.said(" xxxx")
    said = [int(line.split()[-2]) for line in lines]
    assert 10 < len(said) < 1000 and said == sorted(said)
    assert all(line.endswith("x" * 1900) for line in lines), "each whole, as far as the log shows it"


OFTEN = {"ROTA_FRAME_INTERVAL": "100ms", "ROTA_BACKOFF_FIRST": "10ms"}
SPOILS = """
import contextlib, socket

PIPE = int(os.environ["ROTA_FRAME_FD"])


def spoil():
    with contextlib.closing(socket.socket(fileno=os.dup(PIPE))) as pipe:
        pipe.send(b"stray")


@app.task(queue="tag")
def spoiled(n: int) -> int:
    note(f"spoiled {n}")
    if (here / "ledger").read_text().count(f"spoiled {n}") == 1:
        spoil()
    return n


@app.task(queue="many")
async def spoiled_beside(name: str) -> None:
    note(f"hold {name} {os.getpid()}")
    if name == "spoils":
        if (here / "ledger").read_text().count("hold spoils") == 1:
            spoil()
        return
    while not (here / f"go-{name}").exists():
        await asyncio.sleep(0.01)


@app.task(queue="tag")
def close_all(n: int) -> int:
    note(f"close {n}")
    if (here / "ledger").read_text().count(f"close {n}") == 1:
        os.closerange(3, 1000)
        note("closed")
        while True:
            time.sleep(0.05)
    return n
"""


def test_a_job_whose_report_was_spoiled_runs_again_and_its_worker_lives(crew: Crew) -> None:
    """Its worker says in each frame that it has nothing in hand."""
    crew.env |= OFTEN
    crew.teach(SPOILS)
    crew.start("tag=1")
    job = crew.add("spoiled", n=1)
    (done,) = crew.done(job)
    runs = crew.app.claims.runs(job)
    assert (done.attempts, done.deaths, done.result) == (2, 0, 1)
    assert [run.verb for run in runs] == ["fail", "finish"] and "its outcome was lost" in (runs[0].error or "")
    assert crew.deaths() == []
    assert crew.stop() == 0


def test_a_later_report_tells_that_the_one_before_it_was_spoiled(crew: Crew) -> None:
    """In a window of short jobs none of those behind it is held up, or runs twice."""
    crew.env |= OFTEN
    crew.teach(SPOILS)
    warm = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(300))]
    crew.start("tag=1")
    crew.done(*warm)
    spoiled, *behind = crew.app.enqueue_many(
        [crew.new("spoiled", n=1), *(crew.new("tag", n=1000 + n) for n in range(20))]
    )
    assert [job.attempts for job in crew.done(spoiled.id, *(job.id for job in behind))] == [2, *[1] * 20]
    assert crew.deaths() == []


def test_a_coroutine_whose_report_was_spoiled_runs_again_while_others_go_on(crew: Crew) -> None:
    crew.env |= OFTEN
    crew.teach(f"import asyncio\n{SPOILS}\napp.pool('many', concurrency=3)")
    crew.start("many=1")
    jobs = [NewJob(name, queue="many", kind="spoiled_beside", payload={"name": name}) for name in ("stays", "spoils")]
    stays, spoils = [job.id for job in crew.app.enqueue_many(jobs)]
    (done,) = crew.done(spoils)
    assert done.attempts == 2
    assert crew.app.jobs.get(stays).status == "active"
    crew.let_go("stays")
    assert crew.done(stays)[0].attempts == 1


def test_a_handler_that_closes_every_descriptor_costs_one_attempt_and_no_time_out(crew: Crew) -> None:
    """The end of its frame socket is seen at once; how long silence is borne does not matter."""
    crew.env |= OFTEN
    crew.teach(SPOILS)
    crew.start("tag=1")
    job = crew.add("close_all", n=1)
    (done,) = crew.done(job)
    assert (done.attempts, done.deaths, done.result) == (2, 1, 1)
    assert crew.said("its frame socket is closed")
    assert [death.reason for death in crew.deaths()] == ["invalid_frames"]
