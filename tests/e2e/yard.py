"""A place where a loop runs as it stands: `tx` is rota, the model a small script; a ledger tells what really ran."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.support.made import make
from tests.support.shell import ROTA, call

LOOPS = Path(__file__).parent / "loops"

# Each call is noted with its exit code once it is over.
TX = f"""#!/bin/sh
'{ROTA}' "$@"
code=$?
printf '%s %s\\n' "$code" "$*" >> "$LEDGER/calls"
exit $code
"""
# Its last argument is the job's id, or a sentence that begins with it. A job named `slow` outlasts two beats.
MODEL = """#!/bin/bash
prompt=${!#}
id=${prompt#Task: }
id=${id%%.*}
echo "$id" >> "$LEDGER/starts"
if [ "$(tx show "$id" --json | jq -r .title)" = slow ]; then sleep "$SLOW"; fi
tx done "$id" > /dev/null || exit 1
echo "$id" >> "$LEDGER/ends"
echo '{"type":"result"}'
"""


class Yard:
    """One folder with a database, the stand-ins on PATH, and the loops that were started in it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self._ledger, self._started = folder / "ledger", list[subprocess.Popen[bytes]]()
        self._ledger.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        for name, text in (("tx", TX), ("claude", MODEL), ("my_llm_script", MODEL)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        path = f"{programs}:{os.environ['PATH']}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self._environment = {**inherited, "PATH": path, "LEDGER": str(self._ledger), "SLOW": "1.5", **environment}
        url = environment.get("ROTA_DB", f"{folder}/.rota/rota.db")
        if not url.startswith("http"):
            make(url)

    def rota(self, *words: str) -> Any:
        """Ask rota something; its JSON document."""
        answer = call([*words, "--json"], self.folder, self._environment)
        assert answer.returncode == 0, answer
        return json.loads(answer.stdout) if answer.stdout else None

    def add(self, *titles: str) -> list[int]:
        return [self.rota("add", title)["id"] for title in titles]

    def start(self, loop: str) -> subprocess.Popen[bytes]:
        """Run a loop, in a process group of its own as a terminal would."""
        with open(self.folder / f"{loop}.log", "ab") as log:
            process = subprocess.Popen(
                ["bash", LOOPS / f"{loop}.sh"],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        self._started.append(process)
        return process

    def terminate(self, loop: subprocess.Popen[bytes]) -> None:
        """SIGTERM to the shells that loop, not to what they run; wait until they are gone."""
        for pid in _shells(loop.pid):
            os.kill(pid, signal.SIGTERM)
        assert loop.wait(30) == 0, "the trap ends with exit 0"

    def waits_for_work(self, loop: subprocess.Popen[bytes]) -> bool:
        """Whether each of the shells that loop waits in `claim null`."""
        return all(any(b"\0claim\0null\0" in words for words in _children(pid).values()) for pid in _shells(loop.pid))

    def calls(self, of: str = "") -> list[tuple[int, str]]:
        """The calls of `tx` that are over, with their exit codes, oldest first; or those that begin so."""
        found = [line.partition(" ") for line in self._lines("calls")]
        return [(int(code), words) for code, _, words in found if words.startswith(of)]

    def starts(self) -> list[int]:
        """The jobs that the model began, in order; twice if it began twice."""
        return [int(line) for line in self._lines("starts")]

    def ends(self) -> list[int]:
        return [int(line) for line in self._lines("ends")]

    def status(self, job: int) -> str:
        status: str = self.rota("show", str(job))["status"]
        return status

    def workers(self) -> dict[str, str]:
        """Every worker there ever was, by name, with its state."""
        return {worker["name"]: worker["status"] for worker in self.rota("worker", "list", "--all")}

    def close(self) -> None:
        """End whatever still runs."""
        for process in self._started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait(30)

    def _lines(self, file: str) -> list[str]:
        path = self._ledger / file
        return path.read_text().splitlines() if path.exists() else []


def _shells(pid: int) -> list[int]:
    """The looping shells of a script: its subshells where it does nothing but wait for them, else itself."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    return list(_children(pid)) if b"/loops/parallel.sh" in words else [pid]


def _children(pid: int) -> dict[int, bytes]:
    """The children of a process, and the words of each."""
    found: dict[int, bytes] = {}
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        with contextlib.suppress(FileNotFoundError):
            found[child] = Path(f"/proc/{child}/cmdline").read_bytes()
    return found
