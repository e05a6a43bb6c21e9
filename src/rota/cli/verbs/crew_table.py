"""The commands of the crew, for the table."""

from __future__ import annotations

from rota.cli.verb import Argument, Command, Option

_APP = Option("--app", "the application whose tasks they run", "MODULE:APP", env="ROTA_APP")
_LOG_FORMAT = Option("--log-format", "how its log lines are written", "FORM", default="text", choices=("text", "json"))
_URL = Option("--url", "the HTTP API of a host that has the database, in the place of --db", "URL")
_HOST = Option("--host", "the host, as `orchestrator status` shows it; without it this one", "NAME")
_CREW = Option("--crew", "the crew; main is that of `orchestrator start`", "NAME", default="main")

_POOL = Option("--pool", "so many workers for a queue; may be repeated", "Q=N", "pool", many=True)
_PROGRAM = Option(
    "--program",
    "what runs as the workers of a pool: any that speaks frames; may be repeated",
    "Q=CMD",
    "program",
    many=True,
)
_WORKERS = Option("--workers", "so many for all queues that have no pool", "N", "count")

FIRST = (
    Command(
        "init",
        "make a database in .rota, rota.toml and app.py here or in DIR; or only the database that --db names",
        "verbs.init_run:init",
        "rota init shop",
        (Argument("DIR", "the folder; made where there is none", required=False),),
    ),
    Command(
        "run",
        "run the app's workers, the API and the dashboard in this terminal, until Ctrl-C",
        "verbs.init_run:run",
        "rota run --app shop:app --pool tag=2",
        options=(
            _APP,
            _POOL,
            _WORKERS,
            Option("--port", "the port of API and dashboard; without one the first free from 8356 on", "N", "whole"),
        ),
    ),
)

CREW = (
    Command(
        "orchestrator start",
        "keep a crew of workers alive until a signal says stop",
        "verbs.orchestrator:start",
        "rota orchestrator start --app shop:app --pool tag=2",
        options=(
            _APP,
            _POOL,
            _WORKERS,
            _PROGRAM,
            Option("--daemon", "in the background; returns when the first worker is up"),
            Option("--no-http", "without the HTTP API, which otherwise has a slot of its own"),
            _LOG_FORMAT,
        ),
    ),
    Command(
        "worker start",
        "keep workers alive in a crew of their own, beside any orchestrator, until a signal says stop",
        "verbs.orchestrator:start_beside",
        "rota worker start --app shop:app --queue tag",
        options=(
            _APP,
            Option("--queue", "their queue; default serves all that have no pool", "Q", "queue", default="default"),
            Option("--workers", "how many", "N", "count", default="1"),
            Option("--name", "the crew's name; without one, the first free of beside, beside-2 …", "NAME", "queue"),
            _URL,
            _LOG_FORMAT,
        ),
    ),
    Command(
        "worker exec",
        "keep workers alive that run a command for each job of a queue, beside any orchestrator",
        "verbs.orchestrator:exec_beside",
        "rota worker exec --queue convert -- ./convert.sh {payload.path}",
        (
            Argument(
                "CMD", "the program and its arguments, after --; {id}, {title}, {payload.NAME} are filled in", many=True
            ),
        ),
        (
            Option("--queue", "their queue; default serves all that have no pool", "Q", "queue", default="default"),
            Option("--workers", "how many", "N", "count", default="1"),
            Option("--name", "the crew's name; without one, the first free of beside, beside-2 …", "NAME", "queue"),
            Option("--timeout", "how long a command may take at most", "D", "duration"),
            _URL,
            _LOG_FORMAT,
        ),
    ),
    Command(
        "orchestrator stop",
        "let it finish what is in hand, and wait until it has stopped",
        "verbs.orchestrator:stop",
        "rota orchestrator stop",
        options=(
            Option("--graceful", "wait without end"),
            Option("--now", "end the jobs in hand; they run again"),
        ),
    ),
    Command(
        "orchestrator status",
        "how it and its slots are, and those of other hosts; exit code 6 when it is not running here",
        "verbs.orchestrator:status",
        "rota orchestrator status --json",
    ),
    Command(
        "scale",
        "how many workers of a queue the crew on a host should have",
        "verbs.orchestrator:scale",
        "rota scale tag=4",
        (Argument("Q=N", "the queue and the number; 0 is none", "scale", many=True),),
        (_CREW, _HOST),
    ),
    Command(
        "drain",
        "let the crew finish what it holds, however long that takes, and end",
        "verbs.orchestrator:drain",
        "rota drain",
        options=(_CREW, _HOST),
    ),
    Command(
        "reset",
        "clear the restarts of a slot that failed, so that it is filled again",
        "verbs.orchestrator:reset",
        "rota reset worker:tag:0",
        (Argument("SLOT", "the slot"),),
        (Option("--forget", "remove the slot with its history"),),
    ),
    Command(
        "top",
        "watch it live on the whole terminal: queues, slots, jobs, deaths; ? shows the keys",
        "verbs.top:top",
        "rota top --url http://host:8356",
        options=(Option("--url", "through an HTTP API, with the token in ROTA_TOKEN; the same as --db URL", "URL"),),
    ),
)
