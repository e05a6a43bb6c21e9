"""The effort of Hypothesis: the same examples every time; fresh ones and more of them with `./dev test --deep`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.support.tiers import is_deep

NO_COMPLAINTS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "rota",
    derandomize=not is_deep(),
    max_examples=1000 if is_deep() else 100,
    stateful_step_count=100 if is_deep() else 40,
    deadline=None,
    print_blob=True,
    suppress_health_check=NO_COMPLAINTS,
)


def load() -> None:
    settings.load_profile("rota")
