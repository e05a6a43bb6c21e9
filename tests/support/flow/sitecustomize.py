"""Record which functions and lines of rota run in the processes that a test starts.

`ROTA_TEST_FLOW` names a folder and, behind a colon, the folder of the package. The file `window` in the first holds one
byte, which every process maps into its memory: 0 while nothing is recorded, otherwise the number of the window that is
being recorded. So a test switches all threads of all processes on and off at once, without signals and polling.

Records are appended to the file `records`, one line each, as they are made: a process that is killed leaves all that it
did, and the order of the lines is the order in which things happened. A line holds the window, the process, the thread,
the file, the line number and, where a function is entered, its qualified name. A coroutine or a generator that is
resumed counts as entered. Of the lines of code, each is recorded once per window and process.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType


class Recorder:
    """The trace function of every thread of this process."""

    def __init__(self, folder: str, source: str) -> None:
        self._source = source
        self._files: dict[str, str] = {}  # by the name in the code object; empty: not ours
        self._seen: set[tuple[int, str, int]] = set()
        self._records = os.open(os.path.join(folder, "records"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        window = os.open(os.path.join(folder, "window"), os.O_RDONLY)
        self._window = mmap.mmap(window, 1, mmap.MAP_SHARED, mmap.PROT_READ)
        os.close(window)

    def start(self) -> None:
        threading.settrace(self.call)
        sys.settrace(self.call)

    def call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        """Record the entry into a function of the package. Code of others runs on without a trace function."""
        code = frame.f_code
        name = code.co_filename
        try:
            file = self._files[name]
        except KeyError:
            file = self._files[name] = name[len(self._source) :] if name.startswith(self._source) else ""
        if not file:
            return None
        if self._window[0]:
            self._write(file, frame.f_lineno, code.co_qualname)
        return self.line

    def line(self, frame: FrameType, event: str, _argument: object) -> Any:
        """Record a line."""
        window = self._window[0]
        if window and event == "line":
            place = (window, self._files[frame.f_code.co_filename], frame.f_lineno)
            if place not in self._seen:
                self._seen.add(place)
                self._write(place[1], place[2], "")
        return self.line

    def _write(self, file: str, line: int, function: str) -> None:
        record = f"{self._window[0]} {os.getpid()} {threading.get_native_id()} {file} {line} {function}\n"
        os.write(self._records, record.encode())


if "ROTA_TEST_FLOW" in os.environ:
    Recorder(*os.environ["ROTA_TEST_FLOW"].split(os.pathsep)).start()
