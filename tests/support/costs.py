"""The cost of a test run by file and by cause: wall time, processor time and started processes.

Each test's cost travels in its teardown report, so that a run over several processes is added up in one place.
`./dev test` ends with the costliest files; `./dev test --durations` lists all of them, and the slowest tests.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pytest

ALL, RECORD = "ROTA_TEST_DURATIONS", "ROTA_TEST_COSTS"  # everything in the report; a file for the costs of each test
FEW = 8
_PROPERTY = "cost"
_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Seconds, and the number of processes that were started; also the running totals of this process."""

    wall: float = 0.0
    tests: float = 0.0  # processor time of the test process itself
    started: float = 0.0  # of the processes that it started, once they have ended
    server: float = 0.0  # of its PostgreSQL servers
    starts: float = 0

    def plus(self, other: Cost) -> Cost:
        return Cost(*(mine + its for mine, its in zip(self, other, strict=True)))

    def since(self, before: Cost) -> Cost:
        """Return the difference. The processor time of a server that has ended meanwhile is lost."""
        return Cost(*(max(0, mine - its) for mine, its in zip(self, before, strict=True)))

    @property
    def processor(self) -> float:
        return self.tests + self.started + self.server


class _Meter:
    """Measures the cost of each test in the process that runs it, and adds it to the report."""

    def __init__(self) -> None:
        self._starts = 0
        self._began = Cost()
        sys.addaudithook(self._count)

    def _count(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("subprocess.Popen", "os.posix_spawn"):
            self._starts += 1

    def _totals(self) -> Cost:
        own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        processor, children = own.ru_utime + own.ru_stime, ended.ru_utime + ended.ru_stime
        return Cost(time.monotonic(), processor, children, _servers(), self._starts)

    def pytest_runtest_logstart(self) -> None:
        self._began = self._totals()

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown":
            item.user_properties.append((_PROPERTY, list(self._totals().since(self._began))))


class _Report:
    """Adds up the costs of all tests in the process that reports."""

    def __init__(self) -> None:
        self._by_test: dict[str, Cost] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties if report.when == "teardown" else ():
            if name == _PROPERTY:
                self._by_test[report.nodeid] = Cost(*map(float, value))  # type: ignore[call-overload]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._by_test:
            return
        if target := os.environ.get(RECORD):
            with open(target, "w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps({'test': n, **c._asdict()})}\n" for n, c in self._by_test.items())
        terminalreporter.section("what it cost")
        for line in summary(self._by_test, None if os.environ.get(ALL) else FEW):
            terminalreporter.write_line(line)


def install(config: pytest.Config) -> None:
    config.pluginmanager.register(_Meter(), "rota-cost-meter")
    if not hasattr(config, "workerinput"):  # a process of pytest-xdist leaves the report to the one that started it
        config.pluginmanager.register(_Report(), "rota-cost-report")


def summary(by_test: dict[str, Cost], most: int | None) -> list[str]:
    """Return the lines of the summary: causes, the costliest files, the slowest tests; at most `most` of each."""
    by_file: defaultdict[str, Cost] = defaultdict(Cost)
    for test, cost in by_test.items():
        name = test.partition("::")[0]
        by_file[name] = by_file[name].plus(cost)
    total = Cost()
    for cost in by_file.values():
        total = total.plus(cost)
    files = sorted(by_file, key=lambda name: -by_file[name].processor)[:most]
    slowest = sorted(by_test, key=lambda name: -by_test[name].wall)[: most or 40]
    return [
        f"processor {_minutes(total.processor)}: tests {_minutes(total.tests)}, processes that they start"
        f" {_minutes(total.started)} ({total.starts:.0f} starts), PostgreSQL {_minutes(total.server)}",
        f"{'processor':>10}{'tests':>8}{'started':>9}{'server':>8}{'starts':>8}{'wall':>8}  file",
        *(_line(by_file[name], name) for name in files),
        f"{'wall':>10}  slowest tests",
        *(f"{by_test[name].wall:9.1f}s  {name}" for name in slowest),
    ]


def _line(cost: Cost, name: str) -> str:
    parts = f"{cost.tests:7.1f}s{cost.started:8.1f}s{cost.server:7.1f}s{cost.starts:8.0f}{cost.wall:7.1f}s"
    return f"{cost.processor:9.1f}s{parts}  {name}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"


def _servers() -> float:
    """Return the processor time of the PostgreSQL servers that this process started, ended connections included."""
    servers = [pid for pid in _children(os.getpid()) if _read(f"/proc/{pid}/comm").strip() == "postgres"]
    return sum(_seconds(pid, 4) + sum(_seconds(backend, 2) for backend in _children(pid)) for pid in servers)


def _children(pid: int) -> list[int]:
    return [int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _seconds(pid: int, fields: int) -> float:
    """Return the processor time of a process: user and system (2 fields), or with its ended children (4)."""
    return sum(map(int, _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[11 : 11 + fields])) / _TICKS


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
