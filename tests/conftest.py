"""For all tests: how hard Hypothesis tries."""

from __future__ import annotations

from tests.support import profiles

profiles.load()
