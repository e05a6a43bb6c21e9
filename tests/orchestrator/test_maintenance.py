"""Steps of a long task stay short."""

from __future__ import annotations

from rota.core.times import MILLISECOND
from rota.orchestrator.maintenance import FIRST, LONG, MOST, SHORTEST_PAUSE, pause_after, stride_after


def test_steps_grow_to_what_the_store_does_in_a_short_time_and_never_past_their_limit() -> None:
    per_row = MILLISECOND // 10
    size, sizes = FIRST, []
    for _ in range(20):
        size = stride_after(size, size * per_row)
        sizes.append(size)
    assert sizes == sorted(sizes) and sizes[-1] * per_row <= LONG
    assert stride_after(MOST, 1) == MOST


def test_a_step_that_took_long_is_halved_until_one_row_is_left() -> None:
    assert stride_after(500, LONG + 1) == 250
    assert stride_after(1, 1000 * LONG) == 1


def test_most_of_the_time_is_left_to_others() -> None:
    assert pause_after(LONG) >= 4 * LONG and pause_after(1) == SHORTEST_PAUSE
