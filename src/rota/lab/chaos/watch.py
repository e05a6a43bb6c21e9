"""Tells the ledger of a bash loop's life, and holds the connection until that ends.

python -m rota.lab.chaos.watch PID
"""

from __future__ import annotations

import os
import select
import sys

from rota.lab.chaos.ledger_writer import LEDGER, LedgerWriter


def main() -> None:
    pid = int(sys.argv[1])
    try:
        loop = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    os.setsid()  # it is killed after the loop, not with it
    writer = LedgerWriter.connect(os.environ[LEDGER])
    writer.write("up", pid=pid, worker=os.environ["ROTA_WORKER_ID"], slot=os.environ["ROTA_SLOT"])
    select.select([loop], [], [])


if __name__ == "__main__":
    main()
