"""Frames: bytes in, values out, and nothing raises."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.frames import codec as frames
from rota.core.frames.codec import Decoder, Frame, encode, parse

BODIES = st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))


@given(st.sampled_from([frames.HEALTH, frames.DONE, frames.RUN]), BODIES, st.integers(1, 40))
def test_what_is_written_is_read_however_it_is_cut(kind: str, body: dict[str, Any], step: int) -> None:
    data, decoder, found = encode(kind, body) * 3, Decoder(), []
    for start in range(0, len(data), step):
        found += decoder.feed(data[start : start + step])
    assert found == [Frame(kind, body)] * 3
    assert decoder.rubbish == 0


@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_and_leave_the_next_frame_whole(noise: bytes) -> None:
    decoder = Decoder()
    decoder.feed(noise)
    decoder.feed(b"\n")
    assert decoder.feed(encode(frames.HEALTH, {"status": "healthy"})) == [Frame(frames.HEALTH, {"status": "healthy"})]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"HEALTH",
        b"HEALTH|",
        b"HEALTH|[1,2]",
        b"HEALTH|null",
        b'HEALTH|{"a":NaN}',
        b'HEALTH|{"a":',
        b'SHOUT|{"a":1}',
        b'health|{"a":1}',
        b'HEALTH|{"a":"\xff"}',
        b'HEALTH|{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'HEALTH|{"a":"' + b"x" * frames.LARGEST_REPORT + b'"}',
        b'DONE|{"a":"' + b"x" * frames.LARGEST + b'"}',
    ],
    ids=lambda line: repr(line[:24]),
)
def test_what_is_no_frame_is_counted_and_ignored(line: bytes) -> None:
    assert parse(line) is None
    decoder = Decoder()
    assert decoder.feed(line + b"\n" + encode(frames.DONE, {"token": 1})) == [Frame(frames.DONE, {"token": 1})]
    assert decoder.rubbish == 1


def test_an_outcome_may_be_larger_than_a_report() -> None:
    body = {"result": "x" * (2 * frames.LARGEST_REPORT)}
    assert parse(encode(frames.DONE, body).rstrip(b"\n")) == Frame(frames.DONE, body)


def test_an_endless_line_keeps_no_memory_and_ends_with_its_line() -> None:
    decoder = Decoder()
    for _ in range(64):
        assert decoder.feed(b"x" * 65536) == []
        assert len(decoder._rest) <= frames.LARGEST + 65536
    assert decoder.rubbish >= 1
    assert decoder.feed(b"\n" + encode(frames.DONE, {"token": 2})) == [Frame(frames.DONE, {"token": 2})]


def test_a_long_line_that_comes_in_small_pieces_takes_no_time_for_each_of_them() -> None:
    line, decoder = encode(frames.DONE, {"result": "x" * (frames.LARGEST // 2)}), Decoder()
    began = time.process_time()
    found = [frame for at in range(0, len(line), 16) for frame in decoder.feed(line[at : at + 16])]
    assert [frame.kind for frame in found] == [frames.DONE]
    assert time.process_time() - began < 1, "each piece is looked at once"


def test_half_a_surrogate_pair_in_a_frame_becomes_a_question_mark() -> None:
    found = parse(rb'LOG|{"message":"a\ud800b\ud83d\ude00","x\udcff":["\udcff"]}')
    assert found is not None and found.body == {"message": "a?b\N{GRINNING FACE}", "x?": ["?"]}
