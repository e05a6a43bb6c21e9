"""For all tests: the tier that runs, the effort of Hypothesis, what a run costs, and what a failed test leaves."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support import budget, costs, kept, profiles, tiers

if TYPE_CHECKING:
    from collections.abc import Generator

profiles.load()
# A shell that runs us in the background lets us ignore interrupts, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    costs.install(config)


def pytest_report_header() -> str:
    return f"seed: {budget.seed()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, rather than skip, the tests of other tiers: a skip means that something is missing."""
    wanted, left = tiers.select(items)
    if left:
        config.hook.pytest_deselected(items=left)
    items[:] = wanted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.extend(kept.sections(item))
    return report
