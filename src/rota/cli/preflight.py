"""The tasks of an app, read in a process of its own: no verb imports a user's code into itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from rota.core.errors import RotaError
from rota.core.times import SECOND, format_duration

if TYPE_CHECKING:
    from rota.settings import Settings


def declared(app: str, folder: str | None, settings: Settings) -> dict[str, str]:
    """Return the queue of each task of an app, imported in a process of its own (decision 23).

    Args:
        app: The address of the app, such as `shop:app`.
        folder: A folder to look in besides the current one.
        settings: The settings, for the time that the import may take.

    Raises:
        RotaError: The app cannot be imported, or takes too long.
    """
    read, write = os.pipe()
    paths = [path for path in (folder, os.environ.get("PYTHONPATH")) if path]
    environment = {**os.environ, **({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})}
    # The answer comes on a pipe of its own, and stdout goes to stderr: the app may print while it is imported.
    words = [sys.executable, "-P", "-m", "rota.worker.app_loader", app, str(write)]
    with open(read, encoding="utf-8") as answers:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(write,), start_new_session=True, env=environment
            )
        finally:
            os.close(write)
        try:
            code = process.wait(settings.startup_timeout / SECOND)
        except subprocess.TimeoutExpired:
            limit = format_duration(settings.startup_timeout)
            text = f"{app} takes longer than {limit} to import: raise startup_timeout, or load less at import time"
            raise RotaError(f"{text} and the rest in a function with @app.setup()") from None
        finally:
            _end(process)
        text = answers.read()
    if not text:
        raise RotaError(f"importing {app} ended the process {_how(code)}, before it was done")
    answer = json.loads(text)
    if answer["problem"] is not None:
        raise RotaError(answer["problem"])
    tasks: dict[str, str] = answer["tasks"]
    return tasks


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and everything that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _how(code: int) -> str:
    return f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
