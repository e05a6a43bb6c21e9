"""The application of `rota worker exec`: no module of the user's, one command for jobs of every kind."""

from __future__ import annotations

import json
import os

from rota.app import App
from rota.worker.template import Command, parse

APP = "rota.exec_app:app"
TOLD = "ROTA_EXEC"


def told(argv: list[str], timeout: int | None) -> dict[str, str]:
    """What its workers find in their environment."""
    parse(argv)
    return {TOLD: json.dumps({"argv": argv, "timeout": timeout})}


def __getattr__(name: str) -> App:
    if name != "app" or TOLD not in os.environ:
        raise AttributeError(name)
    words = json.loads(os.environ[TOLD])
    app = App()
    app.every = Command(parse(words["argv"]), words["timeout"])
    return app
