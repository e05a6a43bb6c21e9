"""What a test asks of the processes that it starts, first on their path: to end or stop at a point, to have less time.

ROTA_TEST_POINT says where: `POINT SIGNAL NTH WORD FILE`, the nth time that a process with this word in its command line
comes to it. The file is made then, and holds the process; there is no second time.

ROTA_TEST_LEASE says how many seconds an orchestrator's lease lasts, instead of 15; what hangs on it shrinks with it.
"""

from __future__ import annotations

import os
import signal
import sys


def strike(point: str, name: str, nth: str, word: str, file: str) -> None:
    times = iter(range(1, int(nth) + 1))

    def hook(event: str, _: tuple[object, ...]) -> None:
        if event == point and not os.path.exists(file) and next(times, None) == int(nth):
            own = f"{file}.{os.getpid()}"
            with open(own, "w") as note:
                note.write(str(os.getpid()))
            try:
                os.link(own, file)
            except FileExistsError:  # another process came to its nth time at the same moment
                return
            signal.raise_signal(signal.Signals[name])  # to this thread: to the process, it might go on for a while

    if word in sys.orig_argv:
        sys.addaudithook(hook)


def shorten(lease: int) -> None:
    """Load the module that defines these times while a second is shorter, before anything imports them from it."""
    import rota.core.record
    from rota.core import times

    second = times.SECOND
    times.SECOND = second * lease // 15
    import rota.core.orchestrator  # noqa: F401 - for those who come after

    times.SECOND = second


if "ROTA_TEST_POINT" in os.environ:
    strike(*os.environ["ROTA_TEST_POINT"].split(" ", 4))
if "ROTA_TEST_LEASE" in os.environ:
    shorten(int(os.environ["ROTA_TEST_LEASE"]))
