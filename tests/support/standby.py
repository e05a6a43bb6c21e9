"""A streaming standby of a PostgreSQL of our own: it has what the primary has, a moment later, and takes no writes."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from rota.demo.server import CARELESS, LISTENS_HERE, binaries, free_port
from tests.support.eventually import eventually
from tests.support.postgres import with_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60


@contextmanager
def standby(primary: str) -> Iterator[str]:
    """The URL of a standby of the server with this URL, for the length of the block."""
    programs = binaries()
    assert programs is not None
    port = str(free_port())
    with tempfile.TemporaryDirectory(prefix="rota-standby-", dir="/tmp" if os.geteuid() == 0 else None) as home:
        data, who = f"{home}/data", _owner(home)
        copy = [str(programs / "pg_basebackup"), "-D", data, "-d", primary, "-R", "-c", "fast", "--no-sync"]
        subprocess.run(copy, check=True, timeout=PATIENCE, **who)
        settings = {
            **LISTENS_HERE,
            **CARELESS,
            "max_connections": "200",
            "port": port,
        }  # not fewer than the primary has
        words = [str(programs / "postgres"), "-D", data, *(f"-c{name}={value}" for name, value in settings.items())]
        with Path(home, "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log, **who) as process:
            try:
                url = with_parts(primary, port=port)
                eventually(lambda: _answers(url), within=PATIENCE)
                yield url
            finally:
                process.send_signal(signal.SIGQUIT)


def _owner(home: str) -> dict[str, Any]:
    """Whom to run it as, in a folder of theirs: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {"cwd": home}
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    return {"cwd": home, "user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
