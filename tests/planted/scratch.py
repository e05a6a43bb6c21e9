"""A scratch copy of the checkout, in which one bug at a time is planted and looked for."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.planted.data import BadData
from tests.planted.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.planted.data import Bug

CAUGHT, MISSED, LATE, BROKEN = "caught", "not caught", "not caught in time", "broken data"
COLLECTION = " (could not be collected)"
PER_BUG = 360.0  # seconds
# In the environment of whatever a copy starts, to end what is left. Tests remove variables called ROTA_*.
MARK = "PLANTED_COPY"
PYTEST = ["-q", "-n", "0", "-p", "no:cacheprovider", "-rfE", "--tb=short"]
PYTEST += ["-p", "tests.planted.quick", "--hypothesis-profile", "planted"]
_FAILED = re.compile(r"(?m)^(?:FAILED|ERROR) (\S+?\.py(?:::[^\[\n]*?(?:\[.*?\])?)?)(?: - .*)?$")
_FAILURE, _NOT_FOUND, _NOTHING_RAN = 1, 4, 5  # exit codes of pytest


@dataclass(frozen=True)
class Verdict:
    """What became of one planted bug; `by` is the test, or the invariant of the storm, that caught it."""

    bug: Bug
    outcome: str
    seconds: float
    by: str | None = None
    text: str = ""

    @property
    def is_good(self) -> bool:
        return self.outcome == CAUGHT


@dataclass(frozen=True)
class Ran:
    """One command: its exit code, or None when it ran out of time, and its output."""

    code: int | None
    output: str

    @property
    def failed(self) -> str | None:
        """The first test that failed."""
        found = _FAILED.search(self.output)
        return found[1] if found else None


class Scratch:
    """A copy of the working tree with a virtual environment of its own, which runs the copied sources."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._temporary = folder.with_name(f"{folder.name}t")
        self._planted = 0
        copy_tree(root, folder)
        modules = root / "web" / "node_modules"
        if modules.is_dir():
            shutil.copytree(modules, folder / "web" / "node_modules", symlinks=True, copy_function=os.link)
        self._set_up()
        self._sources = Sources(folder)

    def look_for(self, bug: Bug, tests: list[str], limit: float = PER_BUG) -> Verdict:
        """Plant the bug, run the tests until one fails, and restore the sources."""
        began = time.monotonic()
        try:
            with self._with_bug(bug):
                deadline = began + limit
                verdict = self._storm(bug, deadline) if bug.invariant else self._tests(bug, tests, deadline)
        except BadData as error:
            verdict = Verdict(bug, BROKEN, 0.0, text=str(error))
        return Verdict(bug, verdict.outcome, time.monotonic() - began, verdict.by, verdict.text)

    def failing(self, tests: list[str]) -> list[str]:
        """Those of these tests that fail on the sources as they are now."""
        ran = self._pytest(tests, time.monotonic() + PER_BUG * 5)
        if ran.code not in (0, _FAILURE):
            raise BadData(f"pytest ended with {ran.code}: {ran.output[-2000:]}")
        return _FAILED.findall(ran.output)

    def _tests(self, bug: Bug, tests: list[str], deadline: float) -> Verdict:
        if bug.caught_by:
            ran = self._pytest(["-x", bug.caught_by], deadline)
            if ran.code == _FAILURE:
                return Verdict(bug, CAUGHT, 0.0, ran.failed)
        ran = self._pytest(["-x", *tests], deadline)
        if ran.code is None:
            return Verdict(bug, LATE, 0.0, text=ran.output[-2000:])
        if ran.code == _FAILURE:
            return Verdict(bug, CAUGHT, 0.0, ran.failed)
        if ran.code == 0:
            return Verdict(bug, MISSED, 0.0)
        if ran.failed and ran.code not in (_NOT_FOUND, _NOTHING_RAN):
            return Verdict(bug, CAUGHT, 0.0, f"{ran.failed}{COLLECTION}")
        return Verdict(bug, BROKEN, 0.0, text=f"pytest ended with {ran.code}: {ran.output[-2000:]}")

    def _storm(self, bug: Bug, deadline: float) -> Verdict:
        folder = self._temporary / "storm"
        folder.mkdir(parents=True)
        ran = self._run(["python", "-m", "tests.chaos.planted", str(folder)], deadline)
        if ran.code is None:
            return Verdict(bug, LATE, 0.0, text=ran.output[-2000:])
        last = ran.output.strip().rpartition("\n")[2]
        if ran.code or not last.startswith("["):
            return Verdict(bug, BROKEN, 0.0, text=f"the storm ended with {ran.code}: {ran.output[-2000:]}")
        violated: list[str] = json.loads(last)
        if bug.invariant in violated:
            return Verdict(bug, CAUGHT, 0.0, f"{bug.invariant} of the small storm")
        return Verdict(bug, MISSED, 0.0, text=f"the storm names {', '.join(violated) or 'no invariant'}")

    @contextlib.contextmanager
    def _with_bug(self, bug: Bug) -> Iterator[None]:
        changed = self._sources.changed(bug)
        self._planted += 1
        times = {path: path.stat().st_mtime_ns for path in changed}
        is_web = any(self.folder / "web" in path.parents for path in changed)
        try:
            for path, text in changed.items():
                path.write_text(text, encoding="utf-8")
                # Compiled code is told from stale code by whole seconds and size, and a bug may change neither.
                at = times[path] + self._planted * 1_000_000_000
                os.utime(path, ns=(at, at))
            if is_web:
                self._set_up()
            yield
        finally:
            self.end_what_is_left()
            for path in changed:
                path.write_text(self._sources.texts[path], encoding="utf-8")
                os.utime(path, ns=(times[path], times[path]))
            if is_web:
                self._set_up()
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _set_up(self) -> None:
        ran = self._run(["./dev", "setup"], time.monotonic() + PER_BUG)
        if ran.code != 0:
            raise BadData(f"./dev setup failed in the copy: {ran.output[-2000:]}")

    def _pytest(self, words: list[str], deadline: float) -> Ran:
        folder = str(self._temporary / "t")
        return self._run(["python", "-m", "pytest", *PYTEST, "--basetemp", folder, *words], deadline)

    def _run(self, words: list[str], deadline: float) -> Ran:
        self._temporary.mkdir(exist_ok=True)
        output = self._temporary / "output"
        with output.open("wb") as file:
            started = subprocess.Popen(
                words, cwd=self.folder, env=self._environment(), stdout=file, stderr=subprocess.STDOUT
            )
            try:
                code: int | None = started.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
                code = None
        return Ran(code, output.read_text(encoding="utf-8", errors="replace"))

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        path = f"{self.folder / '.venv' / 'bin'}:{os.environ['PATH']}"
        kept.pop("VIRTUAL_ENV", None)
        here = {"PATH": path, "TMPDIR": str(self._temporary), MARK: str(self.folder)}
        return {**kept, **here}

    def end_what_is_left(self) -> None:
        """End the processes that a test which ran out of time left behind."""
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry.name}/environ", "rb") as file:
                    marks = file.read().split(b"\0")
                if f"{MARK}={self.folder}".encode() in marks:
                    os.kill(int(entry.name), signal.SIGKILL)


def copy_tree(root: Path, folder: Path) -> None:
    """Copy what git tracks and what it would track, as it is in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    for name in listed.decode().split("\0"):
        source = root / name
        if not name or not source.is_file():
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    # Tests ask git what belongs to the checkout.
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True, stdout=sys.stderr)
