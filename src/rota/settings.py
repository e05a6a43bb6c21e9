"""Settings: an option wins over a `ROTA_*` variable, that over `rota.toml`, and that over the default.

Values that are not valid are refused when the settings are loaded. The hot verbs load them too, so this file imports
next to nothing at module level (decision 5).
"""

from __future__ import annotations

import os

from rota.core.errors import BadInput, BadSetting, RotaError
from rota.core.health import HealthPolicy
from rota.core.ids import queue_name
from rota.core.record import Record
from rota.core.retry import Backoff
from rota.core.slot import RestartPolicy
from rota.core.times import DAY, HOUR, MINUTE, SECOND, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Network, IPv6Network
    from typing import Any

    from rota.core.times import Duration


OFF = "off"
POSTGRES = ("postgresql://", "postgres://")


class Settings(Record):
    """All settings; `MEANINGS` says what each is for.

    Durations are microseconds here, and texts such as `30s` in files, variables and options.

    Example:
        >>> App("sqlite:///jobs.db", settings=load().replace(max_attempts=5))
    """

    db: str | None = None
    schema: str = "rota"
    app: str | None = None
    pools: tuple[tuple[str, int], ...] = ()
    programs: tuple[tuple[str, str], ...] = ()
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
    frame_interval: Duration = 3 * SECOND
    silent_interval: Duration = 9 * SECOND
    startup_timeout: Duration = 60 * SECOND
    shutdown_timeout: Duration = 20 * SECOND
    max_jobs: int = 0
    max_rss: int = 0
    capture_limit: int = 10
    health_history: Duration = 0
    http_host: str = "127.0.0.1"
    http_port: int = 8356
    http_hosts: str = ""
    http_proxies: str = ""
    http_cert: str | None = None
    http_key: str | None = None
    unknown_kind_timeout: Duration = HOUR
    keep_for: Duration = 7 * DAY
    keep_failed: Duration = 30 * DAY
    keep_jobs: int = 1_000_000
    tracing: str = OFF
    tracking: str | None = None

    @property
    def tracking_url(self) -> str | None:
        """The PostgreSQL database in whose tracking tables workers report, or None."""
        if self.tracking is not None:
            return None if self.tracking == OFF else self.tracking
        return self.db if self.db is not None and self.db.startswith(POSTGRES) else None

    @property
    def backoff(self) -> Backoff:
        """How long a failed job waits before it is tried again."""
        return Backoff(self.backoff_first, self.backoff_most, self.unknown_kind_timeout)

    @property
    def health(self) -> HealthPolicy:
        """When a supervised worker is late or silent."""
        return HealthPolicy(self.startup_timeout, self.silent_interval)

    @property
    def restarts(self) -> RestartPolicy:
        """How often and how soon a slot is filled again after a death."""
        return RestartPolicy(
            self.restart_window, self.restart_limit, self.restart_lifetime, first_backoff=self.restart_backoff
        )


MEANINGS = {
    "db": "the database: a path or URL, or the `http://` address of an API; a path in a file counts from its folder;"
    " without it the nearest `.rota/rota.db`, upwards from the current folder",
    "schema": "on PostgreSQL, the schema that holds everything; `?schema=NAME` in the URL is stronger",
    "app": "the application whose tasks the workers of `rota run` and its like run, as `module:name`;"
    " looked for in the current folder and in that of the file that says so",
    "pools": "how many workers each queue has, as a table `[pools]` or `tag=2,library=10`;"
    " without it one worker for all queues",
    "programs": "the program that runs as the workers of a pool, as a table `[programs]` or lines such as"
    " `tag = node worker.mjs`: one in any language that speaks frames; paths in it count from the current folder",
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
    "frame_interval": "how often a watched worker says on its pipe that it lives",
    "silent_interval": "how long it may be silent before it counts as late; after three such it is ended",
    "startup_timeout": "how long a worker may take until it is ready: its imports and its setup",
    "shutdown_timeout": "how long a stop waits for the jobs in hand before it ends them",
    "max_jobs": "after how many jobs a worker is replaced by a fresh one; 0 is never",
    "max_rss": "beyond how many megabytes of resident memory a worker is replaced after its job; 0 is never",
    "capture_limit": "how many megabytes of what a command writes are kept, of stdout and of stderr each",
    "health_history": "how often the health of every slot is written to the event log, such as `1m`; 0 is never",
    "http_host": "the address that the HTTP API listens on; beyond this machine only where an access token exists",
    "http_port": "the port that the HTTP API listens on; 0 takes a free one",
    "http_hosts": "further names that the HTTP API answers to, separated by commas; without ports",
    "http_proxies": "addresses or networks of proxies in front of the HTTP API, separated by commas: what comes from"
    " them never counts as this machine's own, and their `X-Forwarded-Proto` says whether a browser speaks TLS",
    "http_cert": "a certificate file, so that the HTTP API speaks TLS; it needs `http_key`",
    "http_key": "the key file of `http_cert`",
    "unknown_kind_timeout": "how long a job waits for a worker that knows its kind, as when an application is being"
    " replaced, until it has failed",
    "keep_for": "how long final jobs with their runs, events and workers that are gone are kept; an orchestrator"
    " forgets older ones once an hour, in small steps, and `rota prune` does at once",
    "keep_failed": "the same for failed jobs",
    "keep_jobs": "how many final jobs per queue are kept at most",
    "tracing": "`otel` makes an OpenTelemetry span of every run, with the extra `rota[otel]`; `off` makes none",
    "tracking": "the PostgreSQL database in whose `ai.*` tables workers report, as a URL, or `off`; without it `db`, "
    "where that is PostgreSQL and has the tables",
}
_POOLS, _PROGRAMS = "pools", "programs"
_TEXTS = (
    "db",
    "schema",
    "app",
    "tracing",
    "tracking",
    "http_host",
    "http_hosts",
    "http_proxies",
    "http_cert",
    "http_key",
)
# Relative to the folder of a settings file that has them, elsewhere to the current folder.
_PATHS = ("db", "http_cert", "http_key")
_COUNTS = (
    "max_attempts",
    "keep_jobs",
    "restart_limit",
    "restart_lifetime",
    "max_jobs",
    "max_rss",
    "capture_limit",
    "http_port",
)
_POSITIVE = (
    "lease", "heartbeat_interval", "poll_interval", "backoff_first", "backoff_most", "restart_backoff",
    "restart_window", "frame_interval", "silent_interval", "startup_timeout", "shutdown_timeout",
    "unknown_kind_timeout",
)  # fmt: skip
_FILES = ("rota.toml", "pyproject.toml")
_LARGEST_FILE = 1024 * 1024


def is_duration(name: str) -> bool:
    """Return whether a setting is a duration."""
    return name not in _TEXTS and name not in _COUNTS and name not in (_POOLS, _PROGRAMS)


def load(
    flags: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None, start: str = "."
) -> Settings:
    """Load the settings that apply in a folder.

    Args:
        flags: The options of the command line, as they were written.
        environment: The environment variables. Defaults to those of this process.
        start: The folder from which a settings file is searched upwards.

    Raises:
        BadSetting: A setting is unknown or not valid, or a settings file cannot be read.
    """
    values_by_name: dict[str, Any] = {}
    environment = os.environ if environment is None else environment
    sources: list[tuple[str, Mapping[str, object]]] = [
        *((path, _beside(path, values)) for path, values in _from_files(start)),
        (
            "environment",
            {name: environment[f"ROTA_{name.upper()}"] for name in MEANINGS if environment.get(f"ROTA_{name.upper()}")},
        ),
        ("option", flags or {}),
    ]
    for source, values in sources:
        for name, value in values.items():
            values_by_name[name] = _read(source, name, value)
    return check(Settings(**values_by_name))


def check(settings: Settings) -> Settings:
    """Return the settings unchanged.

    Raises:
        BadSetting: A value is out of range, or two of them do not go together.
    """
    for name in _POSITIVE:
        if getattr(settings, name) <= 0:
            raise BadSetting(f"{name} must be longer than nothing")
    if settings.heartbeat_interval < SECOND // 10:
        raise BadSetting("heartbeat_interval must be at least 100ms: every beat is a write")
    if settings.silent_interval < 2 * settings.frame_interval:
        raise BadSetting("silent_interval must leave room for a late frame: at least twice frame_interval")
    if settings.backoff_most < settings.backoff_first:
        raise BadSetting("backoff_most must be at least backoff_first")
    if settings.http_port > 65535:
        raise BadSetting("http_port must be at most 65535")
    if (settings.http_cert is None) != (settings.http_key is None):
        raise BadSetting("http_cert and http_key go together: give both, or neither")
    networks(settings.http_proxies)
    if settings.tracking not in (None, OFF) and not str(settings.tracking).startswith(POSTGRES):
        raise BadSetting("tracking must be a PostgreSQL URL, such as postgresql://user@host:5432/database, or off")
    if settings.tracing not in (OFF, "otel"):
        raise BadSetting(f"tracing must be otel or off, not {settings.tracing!r}")
    if settings.app is not None and not all(settings.app.partition(":")):
        raise BadSetting(f"app must be module:name, such as shop:app for `app` in shop.py, not {settings.app!r}")
    if settings.max_attempts < 1:
        raise BadSetting("max_attempts must be at least 1")
    return settings


def networks(text: str) -> list[IPv4Network | IPv6Network]:
    """Read networks separated by commas; an address is a network of one.

    Raises:
        BadSetting: One is not a network.
    """
    if not text.strip():
        return []
    from ipaddress import ip_network

    try:
        return [ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip()]
    except ValueError as problem:
        raise BadSetting(
            f"http_proxies must be addresses or networks such as 127.0.0.1,10.0.0.0/8: {problem}"
        ) from None


def _read(source: str, name: str, value: object) -> object:
    where = f"{name} (from {source})"
    if name not in MEANINGS:
        raise BadSetting(f"{source} has an unknown setting {name!r}: known are {', '.join(MEANINGS)}")
    if name in _TEXTS:
        return str(value)
    if name in _COUNTS:
        return _count(where, value)
    if name == _POOLS:
        return _pools(where, value)
    if name == _PROGRAMS:
        return _programs(where, value)
    if str(value) == "0" and name == "health_history":
        return 0
    try:
        return parse_duration(str(value), MINUTE if name == "lease" else None)
    except RotaError as problem:
        raise BadSetting(f"{where}: {problem}") from None


def _count(where: str, value: object) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadSetting(f"{where} must be a whole number, not {value!r:.80}")
    return int(text)


def _pools(where: str, value: object) -> tuple[tuple[str, int], ...]:
    """Read pools from a table of a file, or from the text of a variable such as `tag=2,library=10`."""
    if isinstance(value, str):
        value = dict(pool.strip().partition("=")[::2] for pool in value.split(",") if pool.strip())
    if not isinstance(value, dict):
        raise BadSetting(f"{where} must be a table such as `tag = 2` under [pools], not {value!r}")
    try:
        pools = tuple((queue_name(queue), _count(f"{where}, {queue}", count)) for queue, count in value.items())
    except BadInput as problem:
        raise BadSetting(f"{where}: {problem}") from None
    for queue, count in pools:
        if count < 1:
            raise BadSetting(f"{where}, {queue} must be at least 1: leave the queue out to have no workers for it")
    return pools


def _programs(where: str, value: object) -> tuple[tuple[str, str], ...]:
    """Read programs from a table of a file, or from the text of a variable with a line for each."""
    if isinstance(value, str):
        value = {queue.strip(): text.strip() for queue, _, text in (line.partition("=") for line in value.splitlines())}
    if not isinstance(value, dict):
        raise BadSetting(f'{where} must be a table such as `tag = "node worker.mjs"` under [programs], not {value!r}')
    try:
        programs = tuple((queue_name(queue), str(text)) for queue, text in value.items())
    except BadInput as problem:
        raise BadSetting(f"{where}: {problem}") from None
    for queue, text in programs:
        words_of(f"{where}, {queue}", text)
    return programs


def words_of(where: str, text: str) -> list[str]:
    """Split a command into a program and its arguments, as a shell would.

    Raises:
        BadSetting: It is empty or not balanced; `where` begins the message.
    """
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as problem:
        raise BadSetting(f"{where} is not a command: {problem}") from None
    if not words:
        raise BadSetting(f"{where} must be a program and its arguments, such as 'node worker.mjs', not {text!r}")
    return words


def folder_of(start: str = ".") -> str | None:
    """Return the folder of the settings file that applies in a folder, or None."""
    files = _from_files(start)
    return os.path.dirname(files[0][0]) if files else None


def _from_files(start: str) -> list[tuple[str, dict[str, object]]]:
    """Return the path and values of the nearest `rota.toml`, or `pyproject.toml` with a `[tool.rota]`, upwards."""
    here = os.path.abspath(start)
    while True:
        for file in _FILES:
            path = os.path.join(here, file)
            values = _from_file(path, file, start) if os.path.exists(path) else None
            if values is not None:
                return [(path, values)]
        parent = os.path.dirname(here)
        if parent == here:
            return []
        here = parent


def _beside(path: str, values: dict[str, object]) -> dict[str, object]:
    """Return the values of a settings file, with the paths in them made relative to its folder."""
    return {name: _beside_value(path, str(value)) if name in _PATHS else value for name, value in values.items()}


def _beside_value(path: str, value: str) -> str:
    scheme = "sqlite:///" if value.startswith("sqlite:///") else ""
    rest = value.removeprefix(scheme)
    # The URL of a server has no path.
    if not rest or "://" in rest:
        return value
    return scheme + os.path.join(os.path.dirname(path), rest)


def refuse_strangers(path: str, start: str) -> None:
    """Refuse a file of another user on the way up from `start`: it would choose what you run.

    Trusted are root, you, and the owner of the folder `start`, who could put a file there as well.

    Raises:
        BadSetting: The file belongs to somebody else.
    """
    owners = {os.lstat(path).st_uid, os.stat(path).st_uid}
    if strangers := owners - {0, os.geteuid(), os.stat(start).st_uid}:
        raise BadSetting(
            f"{path} belongs to another user (uid {min(strangers)}), who could choose what you run: remove it, or have"
            f" {'a `.rota`' if path.endswith('.rota') else 'a `rota.toml`'} of your own here (`rota init`)"
        )


def _from_file(path: str, file: str, start: str) -> dict[str, object] | None:
    try:
        # Reading a pipe could wait forever.
        if not os.path.isfile(path):
            raise BadSetting(f"{path} is not a file: move it away")
        with open(path, "rb") as opened:
            data = opened.read(_LARGEST_FILE)
    except OSError as problem:
        raise BadSetting(f"{path} cannot be read: {problem.strerror}") from None
    if file == "pyproject.toml" and b"[tool.rota" not in data:
        return None
    refuse_strangers(path, start)
    try:
        text = data.decode()
        values = _plain(text) or _toml(text)
    except (ValueError, RecursionError) as problem:
        raise BadSetting(f"{path} is not TOML: {problem}") from None
    if file == "rota.toml":
        return values
    tool = values.get("tool")
    table = tool.get("rota") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise BadSetting(f"{path}: tool.rota must be a table, [tool.rota], not {table!r:.80}")
    return table


def _toml(text: str) -> dict[str, Any]:
    # Importing it with its dependencies takes longer than most verbs run (decision 5).
    import tomllib

    return tomllib.loads(text)


def _plain(text: str) -> dict[str, Any] | None:
    """Read a settings file of plain lines, `name = "text"` and `name = 5`, as `rota init` makes one.

    Returns None for any other. Bash loops wait for every import, and unlike `tomllib` this needs none (decision 5).
    """
    values: dict[str, Any] = {}
    table = values
    for line in (line.strip(" \t") for line in text.replace("\r\n", "\n").split("\n")):  # what TOML calls a line
        if not line.isprintable():
            return None
        if not line or line[0] == "#":
            continue
        if line[0] == "[" and line[-1] == "]":
            name, table = line[1:-1], {}
            value: object = table
            target = values
        else:
            name, _, right = line.partition("=")
            name, right, target = name.strip(), right.strip(), table
            value = _plain_value(right)
        if value is None or name in target or not name.replace("_", "").isalnum() or not name.isascii():
            return None
        target[name] = value
    return values


def _plain_value(text: str) -> str | int | None:
    inside = text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == '"' and inside.isprintable() and not {'"', "\\"} & set(inside):
        return inside
    if text.isascii() and text.isdigit() and (text == "0" or text[0] != "0"):
        return int(text)
    return None
