"""The commands of the crew, for the table."""

from __future__ import annotations

from rota.cli.command import Argument, Command, Option

CREW = (
    Command(
        "orchestrator start",
        "keep a crew of workers alive, in the foreground, until a signal says stop",
        "orchestrator:start",
        "rota orchestrator start --app shop:app --pool tag=2",
        options=(
            Option("--app", "the application whose tasks they run", "MODULE:APP", required=True),
            Option("--pool", "so many workers for a queue; may be repeated", "Q=N", "pool", many=True),
            Option("--workers", "so many for the queue default", "N", "count", default="1"),
        ),
    ),
    Command(
        "orchestrator stop",
        "let it finish what is in hand, and wait until it has stopped",
        "orchestrator:stop",
        "rota orchestrator stop",
        options=(
            Option("--graceful", "wait without end"),
            Option("--now", "end the jobs in hand; they run again"),
        ),
    ),
    Command(
        "orchestrator status",
        "how it and its slots are; exit code 6 when it is not running",
        "orchestrator:status",
        "rota orchestrator status --json",
    ),
    Command(
        "scale",
        "how many workers of a queue the crew on this host should have",
        "orchestrator:scale",
        "rota scale tag=4",
        (Argument("Q=N", "the queue and the number; 0 is none", "scale", many=True),),
    ),
    Command(
        "reset",
        "clear the restarts of a slot that failed, so that it is filled again",
        "orchestrator:reset",
        "rota reset worker:tag:0",
        (Argument("SLOT", "the slot"),),
        (Option("--forget", "remove the slot with its history"),),
    ),
)
