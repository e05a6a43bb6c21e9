"""Ids and names: their shapes, and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.errors import BadInput
from rota.core.ids import job_id, printable, queue_name, run_id, worker_id


@given(st.integers(0, 2**62))
def test_a_run_id_names_its_token(token: int) -> None:
    assert int(run_id(token).removeprefix("run-"), 36) == token


@given(st.integers(0, 36**8 - 1), st.integers(0, 36**8 - 1))
def test_run_ids_sort_as_their_tokens_do(one: int, other: int) -> None:
    assert (run_id(one) < run_id(other)) == (one < other)
    assert re.fullmatch("run-[a-z0-9]{8}", run_id(one))


@given(st.binary(min_size=6, max_size=16))
def test_a_worker_id_has_eight_letters_or_digits(entropy: bytes) -> None:
    assert re.fullmatch("worker-[a-z0-9]{8}", worker_id(entropy))


@given(st.integers(0, 10**18 - 1))
def test_a_job_id_is_a_whole_number(number: int) -> None:
    assert job_id(str(number)) == number


@pytest.mark.parametrize("text", ["", "-1", "1.0", "null", "٣", "1" * 19, " 1", "--help", "0x1"])
def test_what_is_not_a_job_id_is_refused_with_where_ids_are_shown(text: str) -> None:
    with pytest.raises(BadInput, match="`rota list` shows them"):
        job_id(text)


@pytest.mark.parametrize("text", ["default", "a", "A.b-c_9", "x" * 64, "_internal", "9"])
def test_a_queue_name_of_few_letters_passes(text: str) -> None:
    assert queue_name(text) == text


@pytest.mark.parametrize("text", ["", "-q", ".q", "a b", "a:b", "*", "x" * 65, "größe", "a/b", "a\n"])
def test_a_queue_name_that_topics_could_not_hold_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a queue name: letters, digits"):
        queue_name(text)


@given(st.text())
def test_nothing_printable_steers_a_terminal(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text) and all(c.isprintable() for c in shown)


def test_printable_keeps_words_and_marks_what_it_took_out() -> None:
    assert printable("a\tb\nc") == "a b c"
    assert printable("\x1b[31mred\x07") == "�[31mred�"
