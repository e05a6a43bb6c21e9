"""Reports of any program on the pipe are read without an error; what makes no sense is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.core.frames import messages

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "tokens": JSON,
        "recover_for_s": JSON,
    },
)


@given(BODIES)
@example({"recover_for_s": 10**400})
@example({"recover_for_s": -(10**400)})
@example({"recover_for_s": float("nan")})
def test_nothing_that_json_can_hold_raises(body: dict[str, Any]) -> None:
    assert all(type(token) in (int, bool) for token in messages.tokens(body))
    asked = messages.recovery_seconds(body)
    assert asked is None or 0 <= asked <= 1e6


def test_kinds_are_those_that_a_worker_names_or_all() -> None:
    named, every = messages.kinds(["tag"]), messages.kinds(True)
    assert "tag" in named and "other" not in named and "other" in every
    assert "tag" not in messages.kinds(None)


@pytest.mark.parametrize("told", [None, 5, "{", ["a"]])
def test_a_checkpoint_that_is_not_json_text_is_ignored(told: object) -> None:
    assert messages.checkpoint({"checkpoint": told}) is None
    assert messages.checkpoint({"checkpoint": "[1]"}) == "[1]"
