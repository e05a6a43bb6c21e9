"""A real worker process with the test at the other end of its pipe."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from rota.core.frames import codec as frames
from rota.process.host import since_boot
from tests.support.eventually import eventually
from tests.support.shell import environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHOP = '''
import os, pathlib, signal, sys, threading, time
import rota
from rota import App

app = App(context={"colour": "red"})
here = pathlib.Path(__file__).parent


def note(text):
    with open(here / "ledger", "a") as ledger:
        ledger.write(f"{text}\\n")


def wait_for(name):
    while not (here / name).exists():
        time.sleep(0.005)


@app.setup(queue="default")
def prepare():
    note(f"setup default {os.getpid()}")


@app.setup(queue="tag")
def prepare_tag():
    note("setup tag")
    app.context["model"] = "m1"


@app.setup(queue="slow")
def prepare_slowly():
    note("setup slow")
    wait_for("go-setup")


@app.setup(queue="bad")
def prepare_badly():
    raise ValueError("no such model")


@app.setup(queue="greedy")
def prepare_greedily():
    app.context["token"] = 5


@app.task()
def double(n):
    return 2 * n


@app.task()
def hold(name):
    """Run until the test lets it go."""
    note(f"hold {name}")
    wait_for(f"go-{name}")
    return name


@app.task()
def broken():
    raise ValueError("no")
'''


class Driven:
    """One worker life. `tasks` is what the test adds to the application."""

    def __init__(self, folder: Path, tasks: str = "", queue: str = "default", **env: str) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(SHOP + tasks)
        self.pipe, theirs = socket.socketpair()
        told = {"FRAME_FD": str(theirs.fileno()), "SLOT": f"worker:{queue}:0", "QUEUE": queue, "APP": "shop:app"}
        told |= {"WORKER_ID": "worker-00000001", "DB": str(folder / "rota.db")}
        with theirs, (folder / "errors").open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rota.worker"],
                cwd=folder,
                env=environment(**{**{f"ROTA_{name}": value for name, value in told.items()}, **env}),
                stdin=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self.pipe.settimeout(30)
        self.past: list[frames.Frame] = []
        self.heard: list[frames.Frame] = []
        self._decoder = frames.Decoder()
        self._token = 0

    # what the test says

    def send(self, kind: str, **body: object) -> None:
        self.pipe.sendall(frames.encode(kind, body))

    def job(self, kind: str, payload: str | None = None, **more: object) -> dict[str, Any]:
        """A job as an orchestrator hands it out; job 100 + n has token n."""
        self._token += 1
        told = {"id": 100 + self._token, "token": self._token, "queue": "default", "kind": kind, "title": kind}
        return {**told, "payload": payload, "attempt": 1, "max_attempts": 3, **more}

    def run(self, *jobs: dict[str, Any], **more: object) -> None:
        self.send(frames.RUN, **{"jobs": list(jobs), "settled": None, "renewed_at": since_boot(), **more})

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def let_go(self, name: str) -> None:
        (self.folder / f"go-{name}").touch()

    # what the worker says

    def hear(self, fact: Callable[[frames.Frame], bool], what: str) -> frames.Frame:
        """The next frame of which this is so; it and those before it are past."""
        looked_at = 0
        while True:
            while looked_at < len(self.heard):
                frame = self.heard[looked_at]
                looked_at += 1
                if fact(frame):
                    self.past += self.heard[:looked_at]
                    del self.heard[:looked_at]
                    return frame
            data = self.pipe.recv(1 << 16)
            assert data, f"the worker is gone and never said {what}; it said {self.heard}; {self.errors()}"
            self.heard += self._decoder.feed(data)
            assert self._decoder.rubbish == 0

    def next(self, kind: str, **body: object) -> dict[str, Any]:
        """The body of the next frame of this kind that says at least this."""
        return self.hear(lambda frame: frame.kind == kind and body.items() <= frame.body.items(), f"{kind} {body}").body

    def done(self, *jobs: dict[str, Any]) -> list[dict[str, Any]]:
        """What becomes of these jobs, in this order."""
        return [self.next(frames.DONE, token=job["token"]) for job in jobs]

    def is_up(self) -> Driven:
        self.next(frames.HEALTH, status="healthy")
        return self

    def holds(self, name: str) -> None:
        eventually(lambda: f"hold {name}" in self.ledger())

    def rest(self) -> list[frames.Frame]:
        """All that it says until it is gone."""
        while data := self.pipe.recv(1 << 16):
            self.heard += self._decoder.feed(data)
        return self.heard

    def ledger(self) -> list[str]:
        path = self.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def errors(self) -> str:
        return (self.folder / "errors").read_text()

    # its end

    def wait(self) -> int:
        return self.process.wait(30)

    def end(self) -> None:
        """Leave nothing behind, whatever the test did."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.pipe.close()
