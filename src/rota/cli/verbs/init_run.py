"""The first minutes: `init` creates a database and an app to edit, `run` runs everything in one terminal."""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import TYPE_CHECKING

from rota.api.credentials import local_address, local_secret
from rota.cli.invocation import aside
from rota.cli.verb import Argument, Option, verb
from rota.cli.verbs.serve import ask_for_link
from rota.core.errors import BadInput, NotFound, RotaError, StoreError
from rota.core.ids import printable
from rota.core.queue import DEFAULT
from rota.core.version import __version__
from rota.orchestrator.pidlock import MAIN
from rota.settings import folder_of, words_of
from rota.store.open import FOLDER, REMOTE, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.cli.invocation import Call
    from rota.orchestrator.console import Console
    from rota.settings import Settings
    from rota.store.engine.database import Database

APP = Option("--app", "the application whose tasks they run", "MODULE:APP", env="ROTA_APP")
POOL = Option("--pool", "so many workers for a queue; may be repeated", "Q=N", "pool", many=True)
WORKERS = Option("--workers", "so many for all queues that have no pool", "N", "count")
LINK_WITHIN = 10.0
LOOK_AGAIN = 0.05

ROTA_TOML = """\
# Settings of rota in this folder and all below. What is commented out is the default; every setting may also be a
# variable, such as ROTA_LEASE=10m.

# The application whose tasks the workers run: `app` in app.py.
app = "app:app"

# Where the jobs are: without this in .rota/rota.db beside this file.
# db = "postgresql://user@host/database"

# The API and the dashboard.
# http_port = 8356

# How often a job is tried before it has failed.
# max_attempts = 3

# How many workers each queue has; `default` serves every queue that is not named here.
[pools]
default = 2
"""
APP_PY = '''\
"""The tasks that `rota run` runs. After a change: Ctrl-C, and `rota run` again."""

from rota import App

app = App()


@app.task()
def greet(name: str = "world") -> str:
    return f"Hello, {name}!"  # your code goes here; what it returns is the job's result
'''
FILES = {
    "rota.toml": (ROTA_TOML, "settings, with the name of your app", 'see that it says app = "module:name"'),
    "app.py": (APP_PY, "one task, for you to edit", 'name the App in it in rota.toml: app = "app:NAME"'),
}


@verb(
    "init",
    "make a database in .rota, rota.toml and app.py here or in DIR; or only the database that --db names",
    "rota init shop",
    (Argument("DIR", "the folder; made where there is none", required=False),),
)
def init(call: Call) -> int:
    """Create a database and, unless the database was named, the settings and an app; existing files are kept."""
    from rota.store.sqlite.create import create

    folder = call["dir"]
    named = call.db is not None or bool(os.environ.get("ROTA_DB"))
    if folder is not None:
        _enter(folder)
    settings = call.settings()
    notices: list[str] = []
    if settings.db is None and not os.path.lexists(FOLDER):
        # `init` makes a database here even if a folder above has one.
        create(None, os.getcwd(), notices.append)
    with open_store(settings.db, settings, make=True, told=notices.append) as store:
        path, version = store.database.path, store.database.version
    created, kept = _files() if folder is not None or not named else ([], [])
    if call.json:
        for text in notices:
            aside(text)
        call.document({"path": path, "made": bool(notices), "schema": version, "files": created})
        return 0
    call.say(notices[0] if notices else f"there is a database at {path} already")
    for file in created:
        call.say(f"made {file}: {FILES[file][1]}")
    for text in kept:
        call.say(text)
    if created:
        call.lines(["", "next:", *([printable(f"  cd {folder}")] if folder not in (None, ".") else []), *_NEXT])
    return 0


_NEXT = [
    "  rota run                      # workers, API and dashboard, in this terminal",
    "  rota add Hello --kind greet   # a job, from another one",
]


def _enter(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        os.chdir(folder)
    except OSError as problem:
        raise StoreError(f"{folder} cannot be used ({problem.strerror}): choose another folder") from None


def _files() -> tuple[list[str], list[str]]:
    """Write the missing files; return those created, and a line about each that existed."""
    created, kept = [], []
    for file, (text, _, hint) in FILES.items():
        if file == "rota.toml" and not os.path.lexists(file) and folder_of() == os.getcwd():
            kept.append('pyproject.toml has the settings of rota: see that [tool.rota] says app = "module:name"')
            continue
        try:
            with open(file, "x", encoding="utf-8") as written:
                written.write(text)
            created.append(file)
        except FileExistsError:
            kept.append(f"{file} is there already, and stays as it is: {hint}")
        except OSError as problem:
            raise StoreError(f"{os.path.abspath(file)} cannot be written: {problem.strerror}") from None
    return created, kept


def app_of(call: Call, settings: Settings) -> str:
    """Return the app that the command line or the settings name."""
    app: str | None = call["app"] or settings.app
    if app is None:
        where = 'name yours with --app module:name, or in rota.toml: app = "module:name"'
        raise BadInput(f"there is no app to run: `rota init` makes one here to begin with; or {where}")
    return app


def programs_of(settings: Settings, more: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """Return the program of each pool that has one.

    Raises:
        BadInput: There is no such executable.
    """

    programs = {**dict(settings.programs), **dict(more)}
    for queue, text in programs.items():
        program = words_of(f"program {queue}", text)[0]
        if shutil.which(program) is None:
            raise BadInput(f"the program of pool {queue} cannot be run: there is no executable {program} here")
    return programs


def crew_of(call: Call, settings: Settings) -> tuple[str | None, dict[str, int], dict[str, str]]:
    """Return the app, the pools and their programs; a program whose pool has no size gets one worker.

    Without an app only programs are started. A crew without pools supervises workers that others start.
    """
    programs = programs_of(settings, call["program"] or ())
    pools = dict.fromkeys(programs, 1) | pools_of(call, settings)
    app = call["app"] or settings.app
    if app is None:
        pools = {queue: count for queue, count in pools.items() if queue in programs or queue != DEFAULT}
        if not pools.keys() <= programs.keys():
            app_of(call, settings)
    return app, pools, programs


def home() -> str | None:
    """Return the folder of the settings, where the app is looked for besides the current folder."""
    folder = folder_of()
    return None if folder == os.getcwd() else folder


def pools_of(call: Call, settings: Settings) -> dict[str, int]:
    """Return the pools of the command line, else those of the settings, else one worker for all queues."""
    pools: dict[str, int] = dict(call["pool"] or [])
    if call["workers"] is not None:
        if DEFAULT in pools:
            raise BadInput("--workers N is the pool default: leave one of the two out")
        pools[DEFAULT] = call["workers"]
    return pools or dict(settings.pools) or {DEFAULT: 1}


@verb(
    "run",
    "run the app's workers, the API and the dashboard in this terminal, until Ctrl-C",
    "rota run --app shop:app --pool tag=2",
    options=(
        APP,
        POOL,
        WORKERS,
        Option("--port", "the port of API and dashboard; without one the first free from 8356 on", "N", "whole"),
    ),
)
def run(call: Call) -> int:
    from rota.api.port import choose
    from rota.cli.preflight import declared
    from rota.orchestrator.console import Console
    from rota.orchestrator.main import Start, refuse_second
    from rota.orchestrator.main import run as run_crew

    if call.json:
        raise BadInput("run shows lines for people: `rota orchestrator start --log-format json` writes JSON")
    settings, folder = call.settings(), home()
    app, programs = app_of(call, settings), programs_of(settings)
    pools = dict.fromkeys(programs, 1) | pools_of(call, settings)
    try:
        with call.store() as store:
            refuse_second(store.database)
    except NotFound:
        # It is created below, once the app has been imported: an app that fails leaves no database behind.
        pass
    # The app is imported first, in a process of its own: a mistake in it is reported here at once, and is not charged
    # to a slot (decision 23).
    tasks = declared(app, folder, settings)
    with call.store(make=True) as store:
        database = store.database
    has_api = not database.url.startswith(REMOTE)
    port, other = choose(settings, call["port"]) if has_api else (settings.http_port, None)
    if other is not None:
        aside(f"port {settings.http_port} is taken by {other}: the dashboard is at {port} instead")
    _say_first(call, app, database, pools)
    problems: list[str] = []

    def on_startup(_: str, problem: str | None) -> None:
        if problem is not None:
            problems.append(problem)
            os.kill(os.getpid(), signal.SIGTERM)

    screen = Console(lambda screen: _head(screen, database, tasks, pools))
    try:
        env = {"ROTA_HTTP_PORT": str(port)}
        crew = Start(app, pools, MAIN, folder=folder, http=True, told=env, programs=programs)
        code = run_crew(settings.replace(http_port=port), crew, on_startup, screen)
    finally:
        screen.close()
    if problems:
        *_, last = problems[0].strip().splitlines() or ["no reason given"]
        raise RotaError(f"no worker came up, so this does not stay: {last}")
    return code


def _say_first(call: Call, app: str, database: Database, pools: Mapping[str, int]) -> None:
    crew = ", ".join(f"{count} for {'all queues' if queue == DEFAULT else queue}" for queue, count in pools.items())
    call.say(f"rota {__version__} runs {app} on {database.path}; workers: {crew}")


def _head(screen: Console, database: Database, tasks: Mapping[str, str], pools: Mapping[str, int]) -> list[str]:
    """Return the first lines once the API answers: the dashboard, what to try, how to stop."""
    rows = [("dashboard", _link(screen, database))]
    # Getting the link may have waited until the crew ended.
    if screen.is_over.is_set():
        return []
    served = {kind: queue for kind, queue in tasks.items() if queue in pools or DEFAULT in pools}
    for kind, queue in list(served.items())[:1]:
        rows.append(("add a job", f"rota add Hello --kind {kind}{f' --queue {queue}' if queue != DEFAULT else ''}"))
    for queue in sorted({queue for kind, queue in tasks.items() if kind not in served}):
        rows.append(
            ("not served", f"queue {queue} has tasks and no pool: `rota scale {queue}=1`, or {queue} = 1 in [pools]")
        )
    rows.append(("stop", "Ctrl-C"))
    return ["", *(f"  {name:<11} {text}" for name, text in rows), ""]


def _link(screen: Console, database: Database) -> str:
    """Return a link to the dashboard as soon as the API gives one."""
    if database.url.startswith(REMOTE):
        return f"{database.url} (`rota open` makes a link)"
    deadline = time.monotonic() + LINK_WITHIN
    while time.monotonic() < deadline and not screen.is_over.is_set():
        try:
            link = ask_for_link(local_address(database.beside), local_secret(database.beside))
            return f"{link}   (once, within a minute; `rota open` makes another)"
        except RotaError:
            screen.is_over.wait(LOOK_AGAIN)
    return "it does not answer yet: `rota why http:0` says why, `rota open` makes a link"
