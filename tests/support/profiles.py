"""How hard Hypothesis tries: the same examples every time; with `HYPOTHESIS_PROFILE=long` fresh ones, and more."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

NO_COMPLAINTS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    print_blob=True,
    max_examples=100,
    stateful_step_count=40,
    suppress_health_check=NO_COMPLAINTS,
)
settings.register_profile(
    "long",
    deadline=None,
    print_blob=True,
    max_examples=3000,
    stateful_step_count=100,
    suppress_health_check=NO_COMPLAINTS,
)


def load() -> None:
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
