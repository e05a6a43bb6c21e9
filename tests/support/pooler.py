"""pgbouncer in transaction mode between the tests and their server: few connections, another one per transaction."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from rota.demo.postgres_server import free_port, own_folder
from tests.support.eventually import eventually
from tests.support.postgres import with_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

REACHED = "host={host} port={port} user={user}{password}"
POOLS = f"""[databases]
* = {REACHED}
[pgbouncer]
pool_mode = transaction
default_pool_size = 3
"""
LISTENS_HERE = """
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
server_round_robin = 1
"""


@contextmanager
def pooled(url: str, pools: str = POOLS) -> Iterator[str]:
    """Yield the URL of the same database behind a pooler that keeps no session between transactions.

    `pools` ends with what its section `pgbouncer` says of pools; where it listens is added there.
    """
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    assert program, "no pgbouncer to test with: apt-get install pgbouncer"
    known = psycopg.conninfo.conninfo_to_dict(url)
    listen = free_port()
    secret = f" password={known['password']}" if known.get("password") else ""
    parts = {"host": known["host"], "port": known["port"], "user": known["user"], "password": secret, "listen": listen}
    with own_folder("rota-pool-") as (folder, identity):
        config = folder / "pgbouncer.ini"
        config.write_text((pools + LISTENS_HERE).format(**parts))
        with subprocess.Popen([program, "-q", config], **identity) as process:
            there = with_parts(url, host="127.0.0.1", port=str(listen))
            try:
                eventually(lambda: _answers(there), every=0.05)
                yield there
            finally:
                process.kill()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
