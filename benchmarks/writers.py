"""How long a write waits when sixteen processes write to one file at once, as fast as they can.

    ./dev bench writers

Each call adds a job, durable when it returns; its whole time is counted, the wait for the lock and the write itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from benchmarks import _report
from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.open import open_store

PROCESSES, SECONDS = 16, 10.0
LONGEST_MS, LATE_MS, LATE_SHARE = 500.0, 50.0, 0.01


def write(path: str, until: float) -> None:
    """One of the writers: prints the milliseconds of each call."""
    found = []
    with open_store(path, Settings()) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        while time.monotonic() < until:
            began = time.perf_counter()
            store.jobs.add(NewJob("one more", queue="q"))
            found.append((time.perf_counter() - began) * 1e3)
    print(" ".join(f"{ms:.3f}" for ms in found))


def measure(processes: int, seconds: float) -> tuple[list[list[float]], int]:
    """The times of each writer's calls, and how many writers an error reached."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        path = os.path.join(folder, "rota.db")
        open_store(path, Settings(), make=True).close()
        until = time.monotonic() + seconds + 3
        words = [sys.executable, "-m", "benchmarks.writers", "--as-writer", path, str(until)]
        writers = [
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
        ]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        answers = []
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in writers:
            answers.append(writer.communicate()[0])
    found = [[float(ms) for ms in answer.split()] for answer in answers]
    return found, sum(writer.returncode != 0 for writer in writers)


def main() -> None:
    if sys.argv[1:2] == ["--as-writer"]:
        write(sys.argv[2], float(sys.argv[3]))
        return
    parser = _report.arguments("Sixteen processes write to one file at once.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for how long")
    options = parser.parse_args()
    each, errors = measure(PROCESSES, options.seconds)
    times = [ms for found in each for ms in found]
    longest, late = max(times), sum(ms > LATE_MS for ms in times) / len(times)
    counts = [len(found) for found in each]
    what: list[tuple[str, float, str, bool | None]] = [
        ("calls a second, in all", len(times) / options.seconds, "", None),
        ("p50 ms", _report.median(times), "", None),
        ("p99 ms", _report.percentile(times, 0.99), "", None),
        ("longest ms", longest, f"<= {LONGEST_MS:g}", longest <= LONGEST_MS),
        (f"share above {LATE_MS:g} ms", late, f"< {LATE_SHARE}", late < LATE_SHARE),
        ("errors", float(errors), "0", not errors),
        ("fewest calls of a writer, of the most", min(counts) / max(counts), "", None),
    ]
    table: list[dict[str, _report.Cell]] = [
        {"what": name, "measured": value, "target": target, "met": met} for name, value, target, met in what
    ]
    _report.show(f"writers: {PROCESSES} processes on one SQLite file, synchronous=FULL", table, options.json)


if __name__ == "__main__":
    main()
