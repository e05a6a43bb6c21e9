"""A worker's side of its pipe: outcomes get through, reports never block."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from rota.core.frames import codec as frames
from rota.core.frames.codec import Decoder
from rota.worker.reporter import Reporter

Pipe = tuple[Reporter, socket.socket]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield Reporter(ours), theirs


def fill(reporter: Reporter) -> int:
    """Report until nothing fits; how many were taken."""
    count = 0
    while reporter.report(frames.LOG, {"message": "x" * 1000}):
        count += 1
    return count


class Reader:
    """The other side of the pipe."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._decoder = Decoder()

    def read(self, count: int) -> list[frames.Frame]:
        found: list[frames.Frame] = []
        while len(found) < count:
            found += self._decoder.feed(self._pipe.recv(1 << 16))
        assert self._decoder.rubbish == 0
        return found


def test_a_report_that_does_not_fit_is_dropped_whole(pipe: Pipe) -> None:
    reporter, theirs = pipe
    reader = Reader(theirs)
    taken = fill(reporter)
    assert not reporter.report(frames.HEALTH, {"status": "healthy"})
    reader.read(taken - 1)
    assert reporter.report(frames.HEALTH, {"status": "late"}), "there is room again"
    assert [frame.kind for frame in reader.read(2)] == [frames.LOG, frames.HEALTH], "the last one was cut, and is whole"


def test_an_outcome_waits_for_room_and_is_not_lost(pipe: Pipe) -> None:
    reporter, theirs = pipe
    taken = fill(reporter)
    heard: list[bool] = []
    deliver = threading.Thread(target=lambda: heard.append(reporter.deliver(frames.encode(frames.DONE, {"token": 7}))))
    deliver.start()
    assert Reader(theirs).read(taken + 1)[-1] == frames.Frame(frames.DONE, {"token": 7})
    deliver.join(30)
    assert heard == [True]


def test_an_outcome_that_nobody_hears_says_so(pipe: Pipe) -> None:
    reporter, theirs = pipe
    theirs.close()
    assert not reporter.deliver(frames.encode(frames.DONE, {"token": 7}))
    assert not reporter.report(frames.HEALTH, {})
