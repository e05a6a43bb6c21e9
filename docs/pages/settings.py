"""The settings page."""

from __future__ import annotations

from docs.pages.markdown import code, join, sentence, table
from rota.core.times import format_duration
from rota.settings import MEANINGS, Settings, is_duration

INTRODUCTION = """\
# Settings

A flag is stronger than a variable, a variable than a file, a file than the default. The file is the nearest
`rota.toml`, or `pyproject.toml` with a `[tool.rota]`, from the current folder upwards; one
of another user is refused, unless he owns the current folder. Durations are written `500ms`,
`30s`, `10m`, `2h` or `7d`. A bare number is refused, but for `lease`, where it means minutes. An unknown name or a
value that makes no sense stops the program at once, with exit code 2 and a message that says what would be right."""

EXAMPLE = """\
```toml
# rota.toml
app = "shop:app"
lease = "10m"
heartbeat_interval = "5s"
max_attempts = 5

[pools]
tag = 2
default = 1
```"""


def page() -> str:
    rows = [
        (code(name), code(f"ROTA_{name.upper()}"), _default(name), sentence(meaning))
        for name, meaning in MEANINGS.items()
    ]
    return join(INTRODUCTION, table(("setting", "variable", "default", "meaning"), rows), EXAMPLE, VARIABLES)


VARIABLES = """\
## Variables that stand in for arguments

`ROTA_JOB_ID`, `ROTA_WORKER_ID` and `ROTA_CLAIM_TOKEN` fill in an id or a token that is left out on the command line;
the [command line's page](cli.md) says where. They are not settings and cannot stand in a file."""


def _default(name: str) -> str:
    value = getattr(Settings(), name)
    if value is None:
        return "none"
    if value == ():
        return "none"
    return code(format_duration(value) if is_duration(name) else str(value)) if value != "" else "none"
