"""`demo`: the main job, played in a folder of its own; the user's database is not touched."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from typing import TYPE_CHECKING

from rota.cli.call import write
from rota.cli.show import columns

if TYPE_CHECKING:
    from typing import Any

    from rota.cli.call import Call


def demo(call: Call) -> int:
    """Play it and tell what came of it; 1 when anything was not as promised."""
    from rota.demo.run import NotAsPromised, check_folder, run
    from rota.demo.screen import Screen

    if call["folder"] is not None:
        check_folder(call["folder"])
    folder = os.path.abspath(call["folder"] or tempfile.mkdtemp(prefix="rota-demo-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either way the crew is ended first
    stream = sys.stderr if call.json else sys.stdout
    live = stream.isatty() and os.environ.get("TERM") != "dumb"
    screen = Screen(_aside if call.json else write, live)
    try:
        told = run(folder, screen)
    except NotAsPromised as problem:
        screen.say(f"NOT as promised: {problem}; how far it came is in {folder}, and why in .rota/crew.log there")
        return 1
    if call.json:
        call.document(told)
    else:
        call.lines(_summary(call, told))
    return 0 if told["is_good"] else 1


def _summary(call: Call, told: dict[str, Any]) -> list[str]:
    pools = [[pool[name] for name in ("pool", "workers", "done", "failed", "restarts")] for pool in told["pools"]]
    names = ("album", "loudness", "tempo", "brightness", "gain")
    albums = [
        [
            album["album"],
            f"{album['loudness']} dB",
            album["tempo"],
            f"{album['brightness']} Hz",
            f"{album['gain']:+} dB",
        ]
        for album in told["albums"]
    ]
    killed = told["killed"]
    if told["is_good"]:
        verdict = f"All {told['pieces']} pieces are tagged, each committed once"
    else:
        verdict = f"NOT as promised: {told['tagged_once']} of {told['pieces']} pieces are tagged once"
    return [
        "",
        *columns(call, ("POOL", "WORKERS", "DONE", "FAILED", "RESTARTS"), pools),
        "",
        *columns(call, [name.upper() for name in names], albums),
        "",
        f"{verdict}; the killed worker's ran again after {killed['again_after_ms']} ms. It took {told['seconds']} s.",
        f"The library and its database are in {told['folder']}: look at them with `rota list`, or remove the folder.",
    ]


def _aside(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
