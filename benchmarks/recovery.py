"""How long after SIGKILL of a worker its job runs again in another, and its slot is filled again.

    ./dev bench recovery

Busy: a crew of four with a full queue of 20 ms jobs. Idle: one job, and three workers with nothing to do. Beside them
the same with bare Python processes and nothing durable: a pidfd, a socketpair, a new process.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from benchmarks import _report
from rota.lab.bench import bare
from rota.lab.bench.measured_crew import kill_workers

if TYPE_CHECKING:
    from collections.abc import Sequence

KILLS = 200
SHORT, LONG = 20, 400
TARGET_MS = 250.0


def measure(kills: int, jobs: int, ms: int) -> tuple[list[float], list[float], bool]:
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        return kill_workers(folder, None, kills, jobs, ms)


def _row(
    name: str, times: Sequence[float], beside: Sequence[float], target: float | None, once: bool | None
) -> dict[str, _report.Cell]:
    p99 = _report.percentile(times, 0.99)
    return {
        "from the kill": name,
        "measured": len(times),
        "p50 ms": round(_report.median(times), 1),
        "p99 ms": round(p99, 1),
        "max ms": round(max(times), 1),
        "bare p50": round(_report.median(beside), 1),
        "ratio": _report.median(times) / _report.median(beside),
        "target p99": target,
        "met": None if target is None else p99 < target,
        "settled once": once,
    }


def main() -> None:
    parser = _report.arguments("From SIGKILL of a worker to its job running again in another.")
    parser.add_argument(
        "--kills", type=int, default=KILLS, help="how many workers are killed in each of the two trials"
    )
    options = parser.parse_args()
    kills = options.kills * (options.rounds or 1)
    bare_again, bare_refilled = bare.recover(min(kills, KILLS))
    busy, busy_refilled, busy_once = measure(kills, 40, SHORT)
    idle, idle_refilled, idle_once = measure(kills, 1, LONG)
    table = [
        _row("busy crew: the job runs again", busy, bare_again, TARGET_MS, busy_once),
        _row("busy crew: the slot is filled", busy_refilled, bare_refilled, None, None),
        _row("three idle: the job runs again", idle, bare_again, TARGET_MS, idle_once),
        _row("three idle: the slot is filled", idle_refilled, bare_refilled, None, None),
    ]
    _report.show("recovery: SIGKILL of a worker with a job in hand, crew of 4", table, options.json)


if __name__ == "__main__":
    main()
