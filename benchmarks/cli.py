"""What one call of a hot verb costs a bash loop, against a Python that does nothing at all.

./dev bench cli
./dev bench cli --http                     over HTTP to a server beside it
./dev bench cli --http --store postgres    over HTTP to a server whose database is PostgreSQL
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from benchmarks import _report, _stores
from benchmarks._processes import BARE, output, seconds
from rota.settings import Settings
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[..., float]

ROTA = os.path.join(os.path.dirname(sys.executable), "rota")
TARGET, P95_MS = 3.0, 100.0


def play(call: Call, round: int) -> None:
    """One life of a job and its worker, as a bash loop lives it."""
    registered = ("worker", "register", "--name", f"bench-{round}", "--json")
    call("worker register", *registered)
    worker = json.loads(output(ROTA, *registered))["id"]
    call("heartbeat", "worker", "heartbeat", worker)
    call("ready", "ready", "--limit", "1", "--json")
    job = str(json.loads(output(ROTA, "ready", "--limit", "1", "--json"))[0]["id"])
    call("claim", "claim", job, worker)
    call("claim:renew", "claim:renew", job, worker)
    call("claim:release", "claim:release", job, worker)
    output(ROTA, "claim", job, worker)
    call("done", "done", job)
    output(ROTA, "worker", "deregister", worker)


def measure(rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """For each verb its times and those of bare Python right before it, in milliseconds."""
    figures: dict[str, tuple[list[float], list[float]]] = {}

    def call(name: str, *arguments: str) -> float:
        bare, verb = seconds(*BARE) * 1e3, seconds(ROTA, *arguments) * 1e3
        times, beside = figures.setdefault(name, ([], []))
        times.append(verb)
        beside.append(bare)
        return verb

    for round in range(rounds):
        output(ROTA, "add", f"job {round}")
        play(call, round)
    return figures


@contextmanager
def database(kind: str) -> Iterator[None]:
    """Let every call go to a new database of this kind: on SQLite to a file in the folder that we are in."""
    if kind == "sqlite":
        output(ROTA, "init")
        yield
        return
    with _stores.stores(kind) as fresh:
        os.environ["ROTA_DB"] = fresh()
        open_store(os.environ["ROTA_DB"], Settings(), make=True).close()
        yield


@contextmanager
def server() -> Iterator[None]:
    """Let every call go over HTTP to a server of that database."""
    os.environ["ROTA_TOKEN"] = output(ROTA, "token", "create", "bench", "--scope", "admin").split()[-1]
    process = subprocess.Popen([ROTA, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        os.environ["ROTA_DB"] = process.stdout.readline().split()[-1]
        yield
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = _report.arguments("What one call of a hot verb costs, against bare Python.")
    parser.add_argument("--http", action="store_true", help="over HTTP to a server, instead of on the file")
    _stores.add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        os.chdir(folder)
        os.environ["XDG_RUNTIME_DIR"] = folder  # what a server leaves for people on this machine goes with it
        with database(options.store), server() if options.http else nullcontext():
            figures = measure(options.rounds or 20)
        os.chdir("/")
    table: list[dict[str, _report.Cell]] = []
    for name, (times, bare) in figures.items():
        ratio, p95 = _report.median(times) / _report.median(bare), _report.percentile(times, 0.95)
        table.append(
            {
                "verb": name,
                "p50 ms": round(_report.median(times), 1),
                "p95 ms": round(p95, 1),
                "spread": _report.spread(times),
                "bare p50": round(_report.median(bare), 1),
                "ratio": ratio,
                "target": TARGET,
                "met": ratio <= TARGET and p95 < P95_MS,
            }
        )
    where = f"{'over HTTP, ' if options.http else ''}on {options.store}"
    _report.show(f"cli {where}: one process per call, interleaved with bare Python", table, options.json)


if __name__ == "__main__":
    main()
