"""`rota top` as a process on real terminals: in tmux at 80×24, and byte by byte."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyte
import pytest

from rota.core.job import NewJob
from tests.support.eventually import eventually
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.crews import Crew

pytestmark = pytest.mark.crew

EVIL = "\x1b[2J\x1b]0;evil\x07\x1bP\x9b31m"


class Tmux:
    """A server of its own, with one pane."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        self._folder = folder

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-f", "/dev/null", "-S", self._socket, *words]
        env = environment(TERM="xterm-256color", LC_ALL="C.UTF-8")
        answer = subprocess.run(command, cwd=self._folder, env=env, capture_output=True, text=True, check=False)
        return answer.stdout

    def screen(self) -> list[str]:
        return self("capture-pane", "-p").split("\n")[:24]

    def sees(self, *words: str) -> str:
        """The line that has all of these words, once there is one."""

        def look() -> str:
            return next((line for line in self.screen() if all(word in line for word in words)), "")

        try:
            return eventually(look, within=60)
        except AssertionError:
            raise AssertionError(f"{words} are not on the screen:\n" + "\n".join(self.screen())) from None


def test_in_tmux_at_80_by_24_a_job_is_opened_and_cancelled_and_the_shell_comes_back(crew: Crew) -> None:
    id = crew.app.enqueue(NewJob(f"Tag {EVIL} a.wav", queue="tag", kind="hold", payload={"name": "a"})).id
    crew.start("tag=1")
    tmux = Tmux(crew.folder)
    tmux("new-session", "-d", "-x", "80", "-y", "24", "sh")
    try:
        title = tmux("display-message", "-p", "#{pane_title}")
        tmux("send-keys", f"'{ROTA}' top; echo left with $?", "Enter")
        tmux.sees("worker:tag:0", "busy", str(id), "Tag �[2J")
        eventually(lambda: "? help" in tmux.screen()[-1])
        assert max(map(len, tmux.screen())) <= 80
        tmux("send-keys", "3", "Enter")
        tmux.sees(f"Job {id} is running")
        tmux("send-keys", "c")
        tmux.sees(f"cancel job {id}?")
        tmux("send-keys", "y")
        tmux.sees(f"Job {id} will not run: it was cancelled by")
        tmux("send-keys", "Escape")
        tmux.sees("3 Jobs in hand")
        tmux("send-keys", "q")
        tmux.sees("left with 0")
        assert not any("Queues" in line for line in tmux.screen())
        assert tmux("display-message", "-p", "#{pane_title}") == title
    finally:
        tmux("kill-server")
    assert crew.app.jobs.get(id).status == "cancelled"


class Terminal:
    """A process on a terminal of 80 by 24, whose every byte is kept."""

    def __init__(self, folder: Path, *words: str, **env: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        more = {"TERM": "xterm-256color", **env}
        self.process = subprocess.Popen(
            [ROTA, *words],
            cwd=folder,
            env=environment(**more),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.bytes = b""

    def read(self) -> bytes:
        """All that was written until now."""
        while select.select([self._master], [], [], 0)[0]:
            try:
                self.bytes += os.read(self._master, 65536)
            except OSError:  # nobody has the other end any more
                break
        return self.bytes

    def says(self, text: str) -> None:
        eventually(lambda: text.encode() in self.read(), within=60)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait(self) -> int:
        def ended() -> bool:
            self.read()
            return self.process.poll() is not None

        eventually(ended, within=60)
        return self.process.returncode

    def hang_up(self) -> None:
        os.close(self._master)
        self._master = -1

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._master >= 0:
            self.hang_up()


@contextmanager
def terminal(folder: Path, *words: str, **env: str) -> Iterator[Terminal]:
    opened = Terminal(folder, *words, **env)
    try:
        yield opened
    finally:
        opened.end()


def test_nothing_that_a_job_holds_reaches_the_terminal_raw(crew: Crew) -> None:
    new = NewJob(f"T{EVIL}", "tag", f"K{EVIL}", key=f"Y{EVIL}", payload={"p": f"P{EVIL}"})
    id = crew.app.enqueue(new).id
    worker = crew.app.workers.register(f"W{EVIL}").id
    claim = crew.app.claims.claim(id, worker)
    crew.app.claims.release(claim, f"N{EVIL}")
    crew.app.queues.pause("tag", f"R{EVIL}")
    with terminal(crew.folder, "top") as top:
        top.says("1 Queues")
        top.says("W\N{REPLACEMENT CHARACTER}[2J")
        top.type("vv")
        top.says("T\N{REPLACEMENT CHARACTER}[2J")
        top.type("\r")
        for mark in "TKYN":
            top.says(f"{mark}\N{REPLACEMENT CHARACTER}[2J")
        top.says("P\\u001b[2J")
        top.type("q")
        assert top.wait() == 0
        written = top.read()
    screen = pyte.Screen(200, 60)
    pyte.Stream(screen).feed(written.decode(errors="replace"))
    assert "evil" not in screen.title + screen.icon_name
    for forbidden in (b"\x1b]0;", b"evil\x07", b"\xc2\x9b", b"W\x1b", b"T\x1b", b"K\x1b", b"Y\x1b", b"N\x1b"):
        found = written.find(forbidden)
        assert found < 0, written[max(0, found - 60) : found + 60]


def test_without_colours_it_draws_none_and_a_signal_ends_it(crew: Crew) -> None:
    crew.add("broken", n=1)
    crew.app.queues.pause("tag")
    with terminal(crew.folder, "top", NO_COLOR="1") as top:
        top.says("paused")
        coloured = [code for code in range(30, 38) if b"\x1b[%dm" % code in top.read()]
        assert coloured == []
        top.process.terminate()
        assert top.wait() == 0
        assert top.read().endswith(b"\x1b[?25h") or b"\x1b[?1049l" in top.read()[-200:]


def test_an_idle_screen_costs_next_to_nothing(crew: Crew) -> None:
    crew.add("hold", name="a")
    crew.start("tag=2")
    eventually(lambda: crew.held_by("a"), within=60)
    with terminal(crew.folder, "top") as top:
        top.says("busy")
        eventually(lambda: _cpu(top.process.pid, 3.0) < 0.04, within=60, every=0)
        top.type("q")
        assert top.wait() == 0


def test_a_screen_leaves_with_its_terminal_even_if_no_signal_tells(crew: Crew) -> None:
    with terminal(crew.folder, "top") as top:
        top.says("1 Queues")
        top.hang_up()
        eventually(lambda: top.process.poll() is not None, within=60)


def _cpu(pid: int, seconds: float) -> float:
    """The share of a core that a process took over this time."""

    def spent() -> float:
        with open(f"/proc/{pid}/stat") as file:
            user, system = file.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    began, before = time.monotonic(), spent()
    eventually(lambda: time.monotonic() >= began + seconds)
    return (spent() - before) / (time.monotonic() - began)
