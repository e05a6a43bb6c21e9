"""The `rota` command in a folder of its own: called in this process where that makes no difference, else as a process.

Starting an interpreter takes longer than most verbs. `tests/cli/test_installed.py` shows that both ways answer alike.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import apsw

from rota.cli.main import run
from rota.store.metrics import STALE
from tests.support import made

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

ROTA = os.path.join(os.path.dirname(sys.executable), "rota")
LIMIT = 60
# Without these a test would depend on who runs it; bytecode is wanted, as after any installation.
_UNWANTED = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED", "NO_COLOR", "COLUMNS")


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a fresh shell, without any setting of rota except those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_") and name not in _UNWANTED}
    return {**kept, **more}


# Verbs that last, take signals, import an application, or start programs which write to their own stdout.
_OWN_PROCESS = {"bench", "chaos", "demo", "mcp", "open", "run", "serve", "top"}
_OWN_PROCESS |= {"orchestrator start", "source check", "worker exec", "worker start"}


def call(words: list[str], folder: Path, env: Mapping[str, str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Call `rota`, in this process if the verb allows it and no other thread could notice."""
    environ = environment(**env)
    has_other_code = "PYTHONPATH" in env
    if has_other_code or _needs_a_process(words) or threading.current_thread() is not threading.main_thread():
        return call_process(words, folder, env, stdin)
    with _changed_to(folder, environ), _streams(stdin) as (out, err):
        code = run(words)
        sys.stdout.flush()
        sys.stderr.flush()
    return subprocess.CompletedProcess([ROTA, *words], code, out.getvalue().decode(), err.getvalue().decode())


def call_process(
    words: list[str], folder: Path, env: Mapping[str, str], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Call the installed command."""
    return subprocess.run(
        [ROTA, *words],
        check=False,
        cwd=folder,
        env=environment(**env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def _needs_a_process(words: list[str]) -> bool:
    return not _OWN_PROCESS.isdisjoint({*words[:1], " ".join(words[:2])})


@contextmanager
def _changed_to(folder: Path, environ: dict[str, str]) -> Iterator[None]:
    here, before = os.getcwd(), dict(os.environ)
    os.chdir(folder)
    _replace_environ(environ)
    try:
        yield
    finally:
        os.chdir(here)
        _replace_environ(before)


def _replace_environ(environ: dict[str, str]) -> None:
    for name in os.environ.keys() - environ.keys():
        del os.environ[name]
    os.environ.update(environ)


@contextmanager
def _streams(stdin: str) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Replace stdout and stderr by byte streams with the encoding that a process would have."""
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    sys.stdout = io.TextIOWrapper(out, "utf-8")
    sys.stderr = io.TextIOWrapper(err, "utf-8", errors="backslashreplace")
    try:
        yield out, err
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout.detach()  # else its end would close what we read
        sys.stderr.detach()
        sys.stdin, sys.stdout, sys.stderr = before


class Shell:
    """A folder to call `rota` in. `env` is what the shell exports."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        self.env = env
        self._started: list[subprocess.Popen[str]] = []

    @property
    def path(self) -> Path:
        return self.folder / ".rota" / "rota.db"

    def exporting(self, **env: str) -> Shell:
        """Return the same folder in a shell that also exports these variables."""
        return Shell(self.folder, **self.env, **env)

    def make(self) -> None:
        """Make the empty database that `rota init` makes, without its example files."""
        made.make(self.env.get("ROTA_DB", str(self.path)))

    def call(self, *words: str | int, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Call `rota`, whatever its exit code. Fails on a traceback, which nobody may ever see."""
        answer = call(list(map(str, words)), self.folder, self.env, stdin)
        assert "Traceback" not in answer.stderr, answer.stderr
        assert "a bug in rota" not in answer.stderr, answer.stderr
        return answer

    def say(self, *words: str | int, code: int = 0, stdin: str = "") -> str:
        """Return what a call prints for people, without the last line end."""
        answer = self.call(*words, stdin=stdin)
        assert answer.returncode == code, (words, answer)
        return answer.stdout.removesuffix("\n")

    def ask(self, *words: str | int, code: int = 0, stdin: str = "") -> Any:
        """Return the one JSON document that a call with `--json` prints."""
        answer = self.call(*words, "--json", stdin=stdin)
        assert answer.returncode == code, (words, answer)
        return json.loads(answer.stdout)

    def refuse(self, *words: str | int, code: int, stdin: str = "") -> str:
        """Return the one line on stderr with which a call is refused."""
        answer = self.call(*words, stdin=stdin)
        assert answer.returncode == code, (words, answer)
        assert answer.stdout == ""
        assert answer.stderr.startswith("rota: ") and answer.stderr.count("\n") == 1, answer.stderr
        return answer.stderr.removeprefix("rota: ").rstrip("\n")

    def start(self, *words: str | int) -> subprocess.Popen[str]:
        """Start a call that runs beside the test."""
        process = subprocess.Popen(
            [ROTA, *map(str, words)],
            cwd=self.folder,
            env=environment(**self.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """End what a test that failed left running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def add(self, title: str = "Tag", *words: str | int) -> int:
        id: int = self.ask("add", title, *words)["id"]
        return id

    def register(self, name: str = "loop", *words: str | int) -> str:
        id: str = self.ask("worker", "register", "--name", name, *words)["id"]
        return id

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of every table, to check that nothing changed. The count of refusals is left out."""
        kept = {"metric": f"WHERE name <> '{STALE}'"}
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(10_000)
        try:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            texts = {name: f'SELECT * FROM "{name}" {kept.get(name, "")}' for name in tables}
            return {name: connection.execute(text).fetchall() for name, text in texts.items()}
        finally:
            connection.close()
