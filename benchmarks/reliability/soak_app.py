"""The application of a soak: that of a storm, and a command that says more than a little on both streams."""

from __future__ import annotations

import shlex

from rota.lab.chaos.handlers import COMMAND, app
from rota.lab.chaos.plan import COMMANDS, WORK

SPEAK = "speak"
SAYS = "yes what a command says | head -c 20000; yes and on the side | head -c 2000 >&2"


@app.command(queue=COMMANDS, name=SPEAK, argv=["/bin/sh", "-c", f"{SAYS}; exec {shlex.join([*COMMAND, WORK])}"])
def speak(ms: int) -> None: ...
