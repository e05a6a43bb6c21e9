"""A handler's end, whatever it is, becomes an outcome."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rota.core.claim import Done, Failed, Snoozed
from rota.worker.handler import GiveUp, Snooze, run


def raiser(problem: BaseException) -> Callable[[], Any]:
    def handler() -> None:
        raise problem

    return handler


def test_what_it_returns_is_the_result_as_json() -> None:
    assert run(lambda: {"a": [1, None]}, None) == Done('{"a":[1,null]}')
    assert run(lambda: None, None) == Done(None)


def test_members_of_the_payload_are_keyword_arguments_and_anything_else_is_the_only_one() -> None:
    assert run(lambda path: path, '{"path": "a"}') == Done('"a"')
    assert run(lambda value: value, "[1,2]") == Done("[1,2]")
    assert run(lambda value: value, " [1] \n") == Done("[1]")


@pytest.mark.parametrize("payload", ["", "[1", "[1] 2", "nonsense", "NaN", "1e400", '"\\ud800"', "[" * 500 + "]" * 500])
def test_a_payload_that_is_not_json_fails_the_run_for_good(payload: str) -> None:
    outcome = run(lambda value: value, payload)
    assert isinstance(outcome, Failed) and not outcome.again
    assert outcome.error.startswith("Unreadable: the payload cannot be read: ")


@pytest.mark.parametrize("result", [float("inf"), "\ud800", {"\udcff": 1}, 10**400, json.loads("[" * 61 + "]" * 61)])
def test_a_result_that_some_reader_of_json_does_not_take_is_a_failure(result: object) -> None:
    outcome = run(lambda: result, None)
    assert isinstance(outcome, Failed) and outcome.again


@pytest.mark.parametrize("problem", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), MemoryError()])
def test_whatever_it_raises_is_a_failure_that_may_be_tried_again(problem: BaseException) -> None:
    outcome = run(raiser(problem), None)
    assert isinstance(outcome, Failed)
    assert outcome.again
    assert type(problem).__name__ in outcome.error


def test_a_payload_that_does_not_fit_fails_the_run() -> None:
    outcome = run(lambda path: path, '{"file": "a"}')
    assert isinstance(outcome, Failed)
    assert "unexpected keyword argument 'file'" in outcome.error


@pytest.mark.parametrize("result", [object(), float("nan"), {1, 2}])
def test_a_result_that_json_cannot_hold_fails_the_run(result: object) -> None:
    assert isinstance(run(lambda: result, None), Failed)


def test_a_result_too_large_fails_the_run_for_good() -> None:
    outcome = run(lambda: "x" * 300_000, None)
    assert isinstance(outcome, Failed)
    assert not outcome.again
    assert "at most 262,144" in outcome.error


def test_giving_up_and_snoozing_are_outcomes_of_their_own() -> None:
    given_up = run(raiser(GiveUp("no use")), None)
    assert isinstance(given_up, Failed)
    assert not given_up.again
    assert run(raiser(Snooze("90s", "busy")), None) == Snoozed(90_000_000, "busy")


def test_endless_recursion_is_a_failure_too() -> None:
    def deeper() -> None:
        deeper()

    limit = sys.getrecursionlimit()
    outcome = run(deeper, None)
    assert isinstance(outcome, Failed)
    assert "RecursionError" in outcome.error
    assert sys.getrecursionlimit() == limit
