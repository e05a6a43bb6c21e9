"""Settings: a flag over a `ROTA_*` variable over `rota.toml` over the default; nonsense is refused at start."""

from __future__ import annotations

import os

from rota.core.errors import BadSetting, RotaError
from rota.core.record import Record
from rota.core.restart import RestartPolicy
from rota.core.retry import Backoff
from rota.core.times import DAY, MINUTE, SECOND, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rota.core.times import Duration


class Settings(Record):
    """All settings, checked. Durations are microseconds here, and texts such as `30s` where people write them."""

    db: str | None = None
    schema: str = "rota"
    lease: Duration = 30 * MINUTE
    heartbeat_interval: Duration = 30 * SECOND
    poll_interval: Duration = 2 * SECOND
    max_attempts: int = 3
    backoff_first: Duration = 2 * SECOND
    backoff_most: Duration = 10 * MINUTE
    restart_backoff: Duration = SECOND
    restart_limit: int = 5
    restart_window: Duration = 5 * MINUTE
    restart_lifetime: int = 20
    keep_for: Duration = 7 * DAY
    keep_jobs: int = 1_000_000

    @property
    def backoff(self) -> Backoff:
        return Backoff(self.backoff_first, self.backoff_most)

    @property
    def restarts(self) -> RestartPolicy:
        return RestartPolicy(
            self.restart_window, self.restart_limit, self.restart_lifetime, first_backoff=self.restart_backoff
        )


MEANINGS = {
    "db": "the database: a path or URL; without it the nearest `.rota/rota.db`, upwards from the current folder",
    "schema": "on PostgreSQL, the schema that holds everything; `?schema=NAME` in the URL is stronger",
    "lease": "how long a claim by hand lasts unless renewed",
    "heartbeat_interval": "how often a registered worker promises to beat; two missed beats and it is dead",
    "poll_interval": "how long a lost wake-up may go unnoticed",
    "max_attempts": "how often a job is tried before it has failed",
    "backoff_first": "the longest wait after a first failure; it doubles with each further one",
    "backoff_most": "the longest wait after any failure",
    "restart_backoff": "how long a slot waits after a first death; it doubles with each further one, up to a minute",
    "restart_limit": "how many restarts of a slot within `restart_window` are allowed; the next death gives it up",
    "restart_window": "the sliding window of `restart_limit`",
    "restart_lifetime": "how many restarts of a slot are allowed in all, until it is reset",
    "keep_for": "how long `rota prune` keeps final jobs, runs, events and workers that are gone",
    "keep_jobs": "how many final jobs per queue `rota prune` keeps at most",
}
_TEXTS = ("db", "schema")
_COUNTS = ("max_attempts", "keep_jobs", "restart_limit", "restart_lifetime")
_FILES = ("rota.toml", "pyproject.toml")


def load(
    flags: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None, start: str = "."
) -> Settings:
    """The settings in force here; `flags` are given as they were written."""
    given: dict[str, Any] = {}
    environment = os.environ if environment is None else environment
    sources: list[tuple[str, Mapping[str, object]]] = [
        *_from_files(start),
        (
            "environment",
            {name: environment[f"ROTA_{name.upper()}"] for name in MEANINGS if environment.get(f"ROTA_{name.upper()}")},
        ),
        ("option", flags or {}),
    ]
    for source, values in sources:
        for name, value in values.items():
            given[name] = _read(source, name, value)
    return check(Settings(**given))


def check(settings: Settings) -> Settings:
    """Refuse settings that cannot work together."""
    for name in (
        "lease",
        "heartbeat_interval",
        "poll_interval",
        "backoff_first",
        "backoff_most",
        "restart_backoff",
        "restart_window",
    ):
        if getattr(settings, name) <= 0:
            raise BadSetting(f"{name} must be longer than nothing")
    if settings.heartbeat_interval < SECOND // 10:
        raise BadSetting("heartbeat_interval must be at least 100ms: every beat is a write")
    if settings.backoff_most < settings.backoff_first:
        raise BadSetting("backoff_most must be at least backoff_first")
    if settings.max_attempts < 1:
        raise BadSetting("max_attempts must be at least 1")
    return settings


def _read(source: str, name: str, value: object) -> object:
    where = f"{name} (from {source})"
    if name not in MEANINGS:
        raise BadSetting(f"{source} has an unknown setting {name!r}: known are {', '.join(MEANINGS)}")
    if name in _TEXTS:
        return str(value)
    if name in _COUNTS:
        if isinstance(value, bool) or not str(value).isascii() or not str(value).isdigit():
            raise BadSetting(f"{where} must be a whole number, not {value!r}")
        return int(str(value))
    try:
        return parse_duration(str(value), MINUTE if name == "lease" else None)
    except RotaError as problem:
        raise BadSetting(f"{where}: {problem}") from None


def _from_files(start: str) -> list[tuple[str, dict[str, object]]]:
    """The nearest `rota.toml`, or `pyproject.toml` with a `[tool.rota]`, upwards from here."""
    here = os.path.abspath(start)
    while True:
        for file in _FILES:
            path = os.path.join(here, file)
            values = _from_file(path, file) if os.path.exists(path) else None
            if values is not None:
                return [(path, values)]
        parent = os.path.dirname(here)
        if parent == here:
            return []
        here = parent


def _from_file(path: str, file: str) -> dict[str, object] | None:
    try:
        with open(path, "rb") as opened:
            data = opened.read()
    except OSError as problem:
        raise BadSetting(f"{path} cannot be read: {problem.strerror}") from None
    if file == "pyproject.toml" and b"[tool.rota" not in data:
        return None
    import tomllib

    try:
        values = tomllib.loads(data.decode())
    except ValueError as problem:
        raise BadSetting(f"{path} is not TOML: {problem}") from None
    return values if file == "rota.toml" else values.get("tool", {}).get("rota")
