"""The application of `rota worker exec`: one command for jobs of every kind, and no module of the user."""

from __future__ import annotations

import json
import os

from rota.app import App
from rota.worker.template import Command, parse

APP = "rota.exec_app:app"
VARIABLE = "ROTA_EXEC"


def environment(argv: list[str], timeout: int | None) -> dict[str, str]:
    """Return the environment variables by which its workers know the command."""
    parse(argv)
    return {VARIABLE: json.dumps({"argv": argv, "timeout": timeout})}


# Made when it is asked for: only a worker of `rota worker exec` has the variable.
def __getattr__(name: str) -> App:
    if name != "app" or VARIABLE not in os.environ:
        raise AttributeError(name)
    words = json.loads(os.environ[VARIABLE])
    app = App()
    app.every = Command(parse(words["argv"]), words["timeout"])
    return app
