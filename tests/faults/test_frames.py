"""Whatever comes over a worker's pipe, and when nobody reads it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

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
