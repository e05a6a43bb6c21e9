"""A record reads like a frozen dataclass."""

from __future__ import annotations

from typing import Any

import pytest

from rota.core.record import Record


class Point(Record):
    x: int
    y: int = 0


class Named(Point):
    name: str = "origin"


class Elsewhere(Record):
    x: int
    y: int = 0


ANY: Any = Point


def test_fields_are_given_by_place_or_by_name_with_defaults() -> None:
    assert (Point(1).x, Point(1).y) == (1, 0)
    assert Point(1, 2) == Point(y=2, x=1)


@pytest.mark.parametrize("values", [{}, {"y": 1}, {"x": 1, "z": 2}], ids=repr)
def test_a_missing_or_unknown_field_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        ANY(**values)


def test_too_many_values_or_one_given_twice_are_refused() -> None:
    with pytest.raises(TypeError):
        ANY(1, 2, 3)
    with pytest.raises(TypeError):
        ANY(1, x=1)


def test_it_is_frozen() -> None:
    point: Any = Point(1)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 2
    assert point.x == 1


def test_equality_and_hash_go_by_kind_and_value() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(1, 3)
    assert hash(Point(1, 2)) == hash(Point(1, 2))
    assert ANY(1, 2) != Elsewhere(1, 2)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2


def test_a_copy_changes_only_what_it_is_told() -> None:
    point = Point(1, 2)
    assert point.replace(y=5) == Point(1, 5)
    assert point == Point(1, 2)
    with pytest.raises(TypeError):
        point.replace(z=1)


def test_a_subclass_adds_its_fields_and_a_match_takes_them_in_order() -> None:
    match Named(1, 2, "a"):
        case Named(x, y, name):
            assert (x, y, name) == (1, 2, "a")


def test_it_shows_its_fields() -> None:
    assert repr(Named(1)) == "Named(x=1, y=0, name='origin')"
