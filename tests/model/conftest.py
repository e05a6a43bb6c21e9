"""Loads the Hypothesis profile before any test is read."""

from __future__ import annotations

from tests.support import profiles

profiles.load()
