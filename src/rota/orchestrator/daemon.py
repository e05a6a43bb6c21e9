"""An orchestrator in the background: started with a log file, it reports to its starter whether it came up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from rota.core.errors import RotaError
from rota.core.record import Record
from rota.orchestrator.main import Start, run
from rota.settings import load
from rota.store.own_files import open_own

if TYPE_CHECKING:
    from rota.settings import Settings


class Started(Record):
    """How the start went. `problem` None: its first worker is up. `code` is its exit code otherwise."""

    process: subprocess.Popen[bytes]
    crew: str
    problem: str | None
    code: int = 0


def start_daemon(settings: Settings, start: Start, log: str, is_own_log: bool = True) -> Started:
    """Start it and wait until its first worker is up, or until each has failed once: then it does not stay.

    `is_own_log`: rota chose the path of the log, so a link in its place is not followed.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = open_own(log, flags) if is_own_log else os.open(log, flags | os.O_CLOEXEC, 0o600)
    read, write = os.pipe()
    about: dict[str, object] = {"app": start.app, "pools": dict(start.pools), "crew": start.crew, "http": start.http}
    about |= {"programs": dict(start.programs), "log": log}
    words = {**about, "log_format": start.log_format, "tie": start.tie, "folder": start.folder, "news_fd": write}
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rota.orchestrator", json.dumps(words)],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            pass_fds=(write,) if start.tie is None else (write, start.tie),
            start_new_session=True,
            env={**os.environ, **_store_variables(settings)},  # not arguments: they may hold a password
        )
    finally:
        os.close(descriptor)
        os.close(write)
    try:
        with open(read, encoding="utf-8") as startup:
            text = startup.read()
    except BaseException:
        # The starter was interrupted while it waited, and will not know later which process to end.
        process.terminate()
        process.wait()
        raise
    report = json.loads(text) if text else {"crew": "", "problem": "it ended before any worker was up"}
    if report["problem"] is None:
        return Started(process, report["crew"], None)
    process.terminate()
    process.wait()
    *_, last = str(report["problem"]).strip().splitlines() or ["no reason given"]
    return Started(process, report["crew"], last, int(report.get("code", 1)))


def _store_variables(settings: Settings) -> dict[str, str]:
    return {"ROTA_DB": settings.db or "", **({"ROTA_TRACKING": settings.tracking} if settings.tracking else {})}


def main() -> None:
    """Run with the arguments of the starter, and report to it once whether the crew came up."""
    words = json.loads(sys.argv[1])
    startup, tie = words["news_fd"], words["tie"]
    for descriptor in (startup, tie):
        if descriptor is not None:
            os.set_inheritable(descriptor, False)

    def report(crew: str, problem: str | None, code: int = 1) -> None:
        os.write(startup, json.dumps({"crew": crew, "problem": problem, "code": code}).encode())
        os.close(startup)

    start = Start(words["app"], words["pools"], words["crew"], words["log_format"], tie, words["folder"], words["http"])
    start = start.replace(programs=words["programs"], log=words["log"])
    try:
        sys.exit(run(load(), start, report))
    except RotaError as problem:
        report("", str(problem), problem.exit_code)
        sys.exit(problem.exit_code)
