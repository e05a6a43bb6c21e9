"""What can be seen of a crew from outside that could grow: its processes, its database, its captures, files and log."""

from __future__ import annotations

import os
import time
from operator import add
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from rota.lab.chaos.plan import COMMANDS, FAR, FUNCTIONS, REMOTE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.lab.chaos.lab_crew import LabCrew
    from rota.lab.chaos.ledger_reader import Life

MB, KB = 1e6, 1e3
WAL = "SELECT sum(size) FROM pg_ls_waldir()"
SIZE = """SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r'"""
WORKERS = {FUNCTIONS: "a worker", COMMANDS: "a worker of commands", REMOTE: "a remote worker"}


class Sampler:
    """Takes one sample after another; the growth of the log is measured between two of them."""

    def __init__(self, crew: LabCrew, url: str | None) -> None:
        self._crew = crew
        self._url = url
        self._logged = _files(crew.folder).logged
        self._at = time.monotonic()

    def take(self, workers: Mapping[str, Life]) -> dict[str, float]:
        """Take one sample. `workers` are those that are sampled, by their queues."""
        watched = {
            "the orchestrator": self._crew.main.pid,
            "the remote orchestrator": self._crew.orchestrators[FAR].pid,
            "the API": self._crew.api.pid if self._crew.api else None,
            **{WORKERS[queue]: life.pid for queue, life in workers.items()},
        }
        sample = {"load": os.getloadavg()[0]}
        for name, pid in watched.items():
            try:
                sample |= {f"memory of {name}": _memory(pid), f"descriptors of {name}": _descriptors(pid)}
            except OSError:  # it has ended: its figures are missing from this sample
                pass
        return sample | self._sizes() | self._file_sizes()

    def _sizes(self) -> dict[str, float]:
        if self._url is None:
            database, wal = _size(self._crew.database), _size(f"{self._crew.database}-wal")
        else:
            with psycopg.connect(self._url) as connection:
                rows = connection.execute(SIZE, [self._crew.schema]).fetchone(), connection.execute(WAL).fetchone()
            database, wal = (float(row[0] or 0) if row else 0.0 for row in rows)
        return {"database": database / MB, "write-ahead log": wal / MB}

    @property
    def captures(self) -> int:
        """How many files of captures there are."""
        return _files(self._crew.folder).captures

    def _file_sizes(self) -> dict[str, float]:
        files, now = _files(self._crew.folder), time.monotonic()
        rate = (files.logged - self._logged) / KB / (now - self._at) * 60
        self._logged, self._at = files.logged, now
        return {"captures": files.captured / KB, "files besides captures": files.others, "log written": rate}


class Files(NamedTuple):
    """The files of a crew: captures and their bytes, others, and the bytes of those of them that are logs."""

    captures: int = 0
    captured: float = 0.0
    others: int = 0
    logged: float = 0.0


def _files(folder: str) -> Files:
    files = Files()
    for where, _, names in os.walk(folder):
        sizes = {name: _size(os.path.join(where, name)) for name in names}
        if os.path.basename(where).endswith("runs"):
            more = Files(len(names), sum(sizes.values()))
        else:
            more = Files(0, 0.0, len(names), sum(size for name, size in sizes.items() if name.endswith(".log")))
        files = Files(*map(add, files, more))
    return files


def _memory(pid: int | None) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return sum(int(line.split()[1]) * 1024 / MB for line in file if line.startswith("VmRSS"))


def _descriptors(pid: int | None) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _size(path: str) -> float:
    try:
        return float(os.path.getsize(path))
    except FileNotFoundError:  # it has just been forgotten
        return 0.0
