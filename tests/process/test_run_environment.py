"""The run that a process comes from can be told by variables of few values each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from rota.core.ids import run_id
from rota.process.run_environment import PIECES, changes, run_of


@given(some.lists(some.integers(1, 36**12 - 1), min_size=1).map(sorted))
def test_the_environment_tells_the_last_run_by_what_changed_since_the_one_before(tokens: list[int]) -> None:
    environment, before = {"ROTA_RUN_ID": "run-0000000x"}, ""
    for run in map(run_id, tokens):
        environment |= changes(before, run)
        before = run
        assert run_of(environment.get) == run


def test_no_variable_has_more_values_than_two_digits_have() -> None:
    values: dict[str, set[str]] = {name: set() for name in PIECES}
    before = ""
    for run in map(run_id, range(0, 36**8, 36**8 // 9973)):
        for name, piece in changes(before, run):
            values[name].add(piece)
        before = run
    assert max(map(len, values.values())) <= 36**2


def test_a_command_tells_its_run_whole_and_others_tell_none() -> None:
    assert run_of({"ROTA_RUN_ID": "run-0000002s"}.get) == "run-0000002s"
    assert run_of({"HOME": "/"}.get) is None
