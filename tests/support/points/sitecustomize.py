"""Stops or kills a process at a named point of the program; first on the path of the processes of a test.

ROTA_TEST_POINT says where: `POINT SIGNAL NTH WORD FILE`, the nth time that a process with this word in its command line
comes to it. The file is made then, and holds the process; there is no second time.
"""

from __future__ import annotations

import os
import signal
import sys

point, name, nth, word, file = os.environ["ROTA_TEST_POINT"].split(" ", 4)
times = iter(range(1, int(nth) + 1))


def hook(event: str, _: tuple[object, ...]) -> None:
    if event == point and not os.path.exists(file) and next(times, None) == int(nth):
        with open(f"{file}.new", "w") as note:
            note.write(str(os.getpid()))
        os.rename(f"{file}.new", file)
        os.kill(os.getpid(), signal.Signals[name])


if word in sys.orig_argv:
    sys.addaudithook(hook)
