"""A worker's side of its pipe: outcomes get through, reports never block."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from rota.core.frames import codec as frames
from rota.core.frames.codec import Decoder
from rota.worker.channel import Channel

Pipe = tuple[Channel, socket.socket]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield Channel(ours), theirs


def fill(channel: Channel) -> int:
    """Report until nothing fits; how many were taken."""
    count = 0
    while channel.report(frames.LOG, {"message": "x" * 1000}):
        count += 1
    return count


class Orchestrator:
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
    channel, theirs = pipe
    orchestrator = Orchestrator(theirs)
    taken = fill(channel)
    assert not channel.report(frames.HEALTH, {"status": "healthy"})
    orchestrator.read(taken - 1)
    assert channel.report(frames.HEALTH, {"status": "late"}), "there is room again"
    assert [frame.kind for frame in orchestrator.read(2)] == [frames.LOG, frames.HEALTH], (
        "the last one was cut, and is whole"
    )


def test_an_outcome_waits_for_room_and_is_not_lost(pipe: Pipe) -> None:
    channel, theirs = pipe
    taken = fill(channel)
    delivered: list[bool] = []
    deliver = threading.Thread(
        target=lambda: delivered.append(channel.deliver(frames.encode(frames.DONE, {"token": 7})))
    )
    deliver.start()
    assert Orchestrator(theirs).read(taken + 1)[-1] == frames.Frame(frames.DONE, {"token": 7})
    deliver.join(30)
    assert delivered == [True]


def test_an_outcome_that_nobody_hears_says_so(pipe: Pipe) -> None:
    channel, theirs = pipe
    theirs.close()
    assert not channel.deliver(frames.encode(frames.DONE, {"token": 7}))
    assert not channel.report(frames.HEALTH, {})


def test_the_end_of_the_stream_closes_the_channel_and_a_switch_opens_it_again(pipe: Pipe) -> None:
    channel, theirs = pipe
    assert (channel.receive(), channel.is_open) == ([], True), "nothing has arrived yet"
    theirs.sendall(frames.encode(frames.RECALL, {})[:-3])
    assert channel.receive() == []
    theirs.close()
    assert (channel.receive(), channel.is_open) == ([], False)
    ours, other = socket.socketpair()
    ours.setblocking(False)
    with ours, other:
        first = frames.encode(frames.HELLO, {"told": 0})
        assert channel.switch(ours, lambda: first)
        assert other.recv(1 << 16) == first
        other.sendall(frames.encode(frames.STOP, {}))
        assert (channel.receive(), channel.is_open) == ([frames.Frame(frames.STOP, {})], True), "no half frame is left"
