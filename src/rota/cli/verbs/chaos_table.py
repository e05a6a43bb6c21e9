"""The commands that run a crew of their own, to show it, to break it or to time it, for the table."""

from __future__ import annotations

from rota.cli.verb import Argument, Command, Option

CHAOS = (
    Command(
        "demo",
        "show what rota does: a crew tags a library of music, one of its workers is killed, in a few seconds;"
        " with --db postgresql://… its jobs are in a schema of their own there, which is dropped when all is well",
        "verbs.demo:demo",
        "rota demo --postgres",
        arguments=(Argument("FOLDER", "where to play, a new folder; a temporary one without it", required=False),),
        options=(Option("--postgres", "on a PostgreSQL server that is started for it, and is gone afterwards"),),
    ),
    Command(
        "chaos",
        "break a crew of its own on purpose, and check that no job was lost or done twice; exit code 1 when one was",
        "verbs.chaos:chaos",
        "rota chaos --seed 7 --jobs 2000 --minutes 1",
        options=(
            Option("--seed", "the same seed and options draw the same plan; without one it is drawn", "N", "whole"),
            Option(
                "--store",
                "the kind of database; postgres is a schema of its own on the server that --db or ROTA_DB names,"
                " or else a server that is started for it, and crashed too",
                "KIND",
                default="sqlite",
                choices=("sqlite", "postgres"),
            ),
            Option(
                "--over",
                "what the crew reaches: the database, or only an HTTP API in front of it, which is killed too",
                "WAY",
                default="database",
                choices=("database", "http"),
            ),
            Option("--jobs", "how many jobs are offered", "J", "count", default="2000"),
            Option("--minutes", "how long the storm lasts", "M", "number", default="1"),
            Option("--workers", "how many workers the crew has", "W", "count", default="4"),
            Option("--compare", "blow the same without a fault first, and tell how much of its pace was kept"),
            Option("--kills", "how many faults in all; without it one in every 1.5 s", "K", "whole"),
        ),
    ),
    Command(
        "bench",
        "time rota on this machine against the raw limits beside it, in about two minutes;"
        " in a temporary folder beside the database, or a schema of its own on the server that --db or ROTA_DB names",
        "verbs.bench:bench",
        "rota bench --db .rota/rota.db",
        options=(
            Option("--rounds", "how often everything is measured, in turn", "N", "count", default="3"),
            Option("--jobs", "how many jobs are worked off in each round", "J", "count", default="20000"),
        ),
    ),
)
