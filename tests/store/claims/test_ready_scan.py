"""Where to look for ready jobs when to look from the best is slow."""

from __future__ import annotations

from rota.store.claims.ready_scan import SLOW, WORTH, Floor, floor_after_whole

AT = 1_000_000
TAKEN = [(4, 90), (3, 70)]


def test_a_quick_look_is_made_again_from_the_best() -> None:
    assert floor_after_whole(None, TAKEN, SLOW - 1, AT) is None
    assert floor_after_whole(Floor(0, 5, 5, 10 * SLOW, AT), TAKEN, SLOW - 1, AT) is None


def test_a_slow_look_is_made_again_when_it_has_taken_a_twentieth_of_the_time() -> None:
    took = 3 * SLOW
    floor = floor_after_whole(None, TAKEN, took, AT)
    assert floor == Floor(3, 70, 90, took, AT + WORTH * took)
    assert took / (floor.until - AT) <= 1 / 20


def test_looks_that_find_nothing_cost_less_and_less_until_nothing_is_remembered() -> None:
    floor: Floor | None = Floor(3, 70, 90, 5 * SLOW, AT)
    costs = []
    while floor is not None:
        floor = floor_after_whole(floor, [], 0, AT)
        if floor is not None:
            assert floor == Floor(3, 70, 90, floor.cost, AT + WORTH * floor.cost)
            costs.append(floor.cost)
    assert costs == [5 * SLOW // 2, 5 * SLOW // 4]


def test_behind_the_floor_it_only_goes_down_and_knows_the_newest() -> None:
    floor = Floor(0, 70, 70, SLOW, AT)
    assert floor.after([]) == floor
    assert floor.after([(0, 71), (0, 72)]) == Floor(0, 72, 72, SLOW, AT)
    assert floor.after([(0, 71), (-1, 3)]) == Floor(-1, 3, 71, SLOW, AT)
    assert floor.after([(1, 99)]) == Floor(0, 70, 99, SLOW, AT)


def test_nothing_found_quickly_is_nothing_to_remember() -> None:
    assert floor_after_whole(None, [], 0, AT) is None
