"""A worker life on its pipe."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

from rota.app import App
from rota.core import frame as frames
from rota.worker import runtime
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_worker_that_hears_without_pause_still_tells_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "FRAME_INTERVAL", 0.1)
    ours, theirs = socket.socketpair()
    worker = runtime.Runtime(theirs, "worker:tag:0", "worker-00000001", "tag")
    life = threading.Thread(target=worker.work, args=(App(str(tmp_path / "rota.db")),))
    decoder, beats = frames.Decoder(), 0
    with ours, theirs:
        life.start()

        def beaten() -> bool:
            nonlocal beats
            ours.sendall(frames.encode(frames.RECALL, {}))
            beats += sum(frame.kind == frames.HEALTH for frame in decoder.feed(ours.recv(1 << 16)))
            return beats >= 4

        eventually(beaten)
        ours.sendall(frames.encode(frames.STOP, {}))
        life.join(30)
        assert not life.is_alive()
        ours.shutdown(socket.SHUT_RDWR)
