"""Where a job rests when nobody holds it: never blindly `ready`."""

from __future__ import annotations

import pytest

from rota.core.job import BLOCKED, DEPENDENCY, LIMIT, READY, SCHEDULED, rest


@pytest.mark.parametrize("due", [True, False])
@pytest.mark.parametrize("crowded", [True, False])
def test_an_open_dependency_comes_before_everything(due: bool, crowded: bool) -> None:
    assert rest(True, due, crowded) == (BLOCKED, DEPENDENCY)


@pytest.mark.parametrize("crowded", [True, False])
def test_a_job_before_its_time_is_scheduled_and_takes_no_room_under_a_limit(crowded: bool) -> None:
    assert rest(False, False, crowded) == (SCHEDULED, None)


def test_a_due_job_over_its_keys_limit_is_blocked_by_the_limit() -> None:
    assert rest(False, True, True) == (BLOCKED, LIMIT)


def test_a_due_job_with_nothing_in_its_way_is_ready() -> None:
    assert rest(False, True, False) == (READY, None)
