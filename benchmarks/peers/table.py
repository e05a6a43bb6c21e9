"""Every system of the comparison: what is installed, where its jobs are, and how durable it is."""

from __future__ import annotations

from rota.core.record import Record

SQLITE, POSTGRES, REDIS = "SQLite", "PostgreSQL", "Redis"

_WAL_FULL = "synchronous=FULL"
_WAL_NORMAL = "synchronous=NORMAL: the last commits may be lost"
_COMMIT = "synchronous_commit=on"
_AOF = "appendonly yes, appendfsync everysec: up to 1 s may be lost"

_PGQUEUER = ("pgqueuer[asyncpg]==1.6.0", "uvloop==0.23.0")


class System(Record):
    """One column of the comparison."""

    name: str
    on: str
    module: str
    requirements: tuple[str, ...]
    durable: str
    note: str = ""
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        return f"{self.name} on {self.on}"


# rota is installed already. In addition to what the others do it keeps a run for every attempt, an event for every
# change, counters, a token that fences each claim, and a certificate for every death.
OURS = (
    System("rota", SQLITE, "rota", (), _WAL_FULL, "history, events, fencing, supervision"),
    System("rota", POSTGRES, "rota", (), _COMMIT, "history, events, fencing, supervision"),
)
PEERS = (
    System(
        "huey",
        SQLITE,
        "huey",
        ("huey==3.5.4",),
        f"{_WAL_FULL} (fsync=True)",
        "the job leaves the file when it is taken",
    ),
    System("litequeue", SQLITE, "litequeue", ("litequeue==0.9",), _WAL_NORMAL, "no workers; polled every 10 ms here"),
    System(
        "persist-queue",
        SQLITE,
        "persist_queue",
        ("persist-queue==1.1.0",),
        _WAL_FULL,
        "no workers; polled every 10 ms here; may run a job twice",
    ),
    System("taskito", SQLITE, "taskito", ("taskito==0.22.0",), _WAL_NORMAL, "Rust core, results kept"),
    System("DBOS", SQLITE, "dbos", ("dbos==3.3.0",), _WAL_FULL, "workflows with their steps"),
    System("pgqueuer", POSTGRES, "pgqueuer", _PGQUEUER, _COMMIT, "its defaults, batch 10"),
    System("pgqueuer, batch 100", POSTGRES, "pgqueuer", _PGQUEUER, _COMMIT, "tuned", (("BENCH_BATCH", "100"),)),
    System(
        "procrastinate",
        POSTGRES,
        "procrastinate",
        ("procrastinate==3.10.0", "psycopg[binary]==3.3.8"),
        _COMMIT,
        "keeps finished jobs and events",
    ),
    System(
        "SAQ", POSTGRES, "saq", ("saq[postgres]==0.26.4", "psycopg[binary]==3.3.8"), _COMMIT, "its defaults, 10 at once"
    ),
    System("dramatiq", REDIS, "dramatiq", ("dramatiq[redis]==2.2.1",), _AOF, "8 threads for each process"),
    System("taskiq", REDIS, "taskiq", ("taskiq==0.13.0", "taskiq-redis==1.2.4"), _AOF, "streams, acknowledged"),
    System("celery", REDIS, "celery", ("celery[redis]==5.7.0",), _AOF, "acks_late, reject_on_worker_lost"),
    System("RQ", REDIS, "rq", ("rq==2.12.0",), _AOF, "a fork for each job"),
    System("arq", REDIS, "arq", ("arq==0.28.0",), _AOF, "polls every 0.5 s"),
    System("SAQ", REDIS, "saq", ("saq[redis]==0.26.4", "typing-extensions==4.16.0"), _AOF, "its defaults, 10 at once"),
)
