"""An orchestrator in the background: started by exec with a log file, it tells its starter how the first start went."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from rota.core.errors import RotaError
from rota.core.record import Record
from rota.orchestrator.run import Start, run
from rota.settings import load

if TYPE_CHECKING:
    from rota.settings import Settings


class Started(Record):
    """How the start of a daemon went. `problem` None: its first worker is up. `code` is its exit code otherwise."""

    pid: int
    problem: str | None
    code: int = 0


def start_daemon(settings: Settings, start: Start, log: str) -> Started:
    """Start it and wait until its first worker is up, or until each has failed once: then it does not stay."""
    read, write = os.pipe()
    about = {"db": settings.db, "app": start.app, "pools": dict(start.pools), "crew": start.crew}
    words = {**about, "log_format": start.log_format, "news_fd": write}
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "rota.orchestrator", json.dumps(words)],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            pass_fds=(write,),
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
        os.close(write)
    with open(read, encoding="utf-8") as news:
        text = news.read()
    told = json.loads(text) if text else {"problem": "it ended before any worker was up"}
    if told["problem"] is None:
        process.returncode = 0  # it lives on without us
        return Started(process.pid, None)
    process.terminate()
    process.wait()
    return Started(process.pid, str(told["problem"]), int(told.get("code", 1)))


def main() -> None:
    """Run as told by the starter, and give it the first news."""
    words = json.loads(sys.argv[1])
    news = words["news_fd"]
    os.set_inheritable(news, False)

    def tell(problem: str | None, code: int = 1) -> None:
        os.write(news, json.dumps({"problem": problem, "code": code}).encode())
        os.close(news)

    start = Start(words["app"], words["pools"], words["crew"], words["log_format"])
    settings = load({"db": words["db"]} if words["db"] else {})
    try:
        sys.exit(run(settings, start, tell))
    except RotaError as problem:
        tell(str(problem), problem.exit_code)
        sys.exit(problem.exit_code)
