"""For all tests: the effort of Hypothesis, which tests are deep, and that what they start can be interrupted."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support import profiles

profiles.load()
# A shell that runs us in the background lets us ignore interrupts, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests marked deep, unless ROTA_DEEP=1 (./dev test --deep)."""
    if os.environ.get("ROTA_DEEP") == "1":
        return
    deep = [item for item in items if item.get_closest_marker("deep")]
    if deep:
        config.hook.pytest_deselected(items=deep)
        items[:] = [item for item in items if not item.get_closest_marker("deep")]
