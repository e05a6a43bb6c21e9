"""The small JSON writer agrees with the reader of the standard library."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.errors import BadInput
from rota.core.jsontext import DEEPEST, Raw, compact, encode, shown, sound
from rota.store.jobs import payload

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_it_writes_reads_back_as_the_same(value: object) -> None:
    assert json.loads(encode(value)) == value


@given(VALUES, st.integers(1, 8))
def test_indented_it_reads_back_as_the_same_too(value: object, indent: int) -> None:
    assert json.loads(encode(value, indent)) == value


@given(st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS)), st.integers(1, 8))
def test_an_indented_object_is_what_the_standard_library_writes(value: object, indent: int) -> None:
    assert encode(value, indent) == json.dumps(value, indent=indent, ensure_ascii=False)


@given(VALUES)
def test_without_an_indent_there_is_no_room_and_no_line_end(value: object) -> None:
    assert encode(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_raw_text_is_written_as_it_stands() -> None:
    assert encode({"payload": Raw('{"a":  1}')}) == '{"payload":{"a":  1}}'


@given(VALUES, st.integers(0, 8), st.booleans())
def test_shown_on_a_terminal_it_reads_back_as_the_same_in_printable_letters(
    value: object, indent: int, ascii_only: bool
) -> None:
    text = shown(encode(value, indent), ascii_only)
    assert json.loads(text) == value
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert text.isascii() or not ascii_only


def test_what_steers_a_terminal_is_shown_as_an_escape_in_raw_text_too() -> None:
    raw = Raw('{"a":\t"\x7f\x9b2J\u202e\U000e0001",\r"b": "é"}')
    assert shown(encode([raw])) == r'[{"a": "\u007f\u009b2J\u202e\udb40\udc01", "b": "é"}]'
    assert shown(encode([raw]), ascii_only=True).endswith(r' "b": "\u00e9"}]')


def test_tuples_are_lists() -> None:
    assert encode((1, (2, 3), ())) == "[1,[2,3],[]]"


@pytest.mark.parametrize("value", [1j, {1, 2}, b"bytes", {1: "a key that is no text"}], ids=repr)
def test_what_has_no_json_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        encode(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(BadInput, match="has no JSON form"):
        encode({"cpu": value})


@given(VALUES)
def test_the_compact_form_is_the_same_whichever_encoder_writes_it(value: object) -> None:
    assert compact(value) == encode(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {("a", "b"): 1}])
def test_what_has_no_json_form_is_refused_as_a_payload(value: object) -> None:
    with pytest.raises(BadInput, match="the payload cannot be written as JSON"):
        payload.encode(value, "payload")


def test_what_holds_itself_is_refused_and_leaves_no_trace() -> None:
    inner: dict[str, object] = {}
    inner["self"] = inner
    with pytest.raises(BadInput, match="the payload cannot be written as JSON"):
        payload.encode(inner, "payload")
    del inner["self"]
    assert payload.encode([inner, inner], "payload") == "[{},{}]"


@given(VALUES)
def test_what_json_can_hold_is_sound_read_or_written(value: object) -> None:
    text = json.dumps(value)
    assert sound(text) == value and sound(compact(value), value) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("NaN", "NaN is not JSON"),
        ('{"a": [-Infinity]}', "-Infinity is not JSON"),
        ("1e400", "1e400 is out of range"),
        ("[-2e999]", "-2e999 is out of range"),
        ("9" * 400, "out of range"),
        ("9" * 5000, "out of range"),
        (r'"\ud800"', "half of a surrogate pair"),
        (r'{"\uDCff": 1}', "half of a surrogate pair"),
        ('"\ud800"', "half of a surrogate pair"),
        ("[" * 61 + "]" * 61, "nested too deeply: at most 60 levels"),
        ('{"a":' * 61 + "1" + "}" * 61, "nested too deeply: at most 60 levels"),
        ("[" * 100_000, "nested too deeply: at most 60 levels"),
        ("", "Expecting value"),
        ("[1", "Expecting"),
        ("[1] 2", "Extra data"),
    ],
    ids=lambda text: repr(text)[:30],
)
def test_text_that_some_reader_of_json_does_not_take_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        sound(text)


def test_what_every_reader_of_json_takes_passes() -> None:
    deep = "[" * DEEPEST + "]" * DEEPEST
    for text in (
        deep,
        "[" * (DEEPEST - 1) + "[], []" + "]" * (DEEPEST - 1),
        "[" + ",".join(["[]"] * 500) + "]",
        r'"\ud83d\ude00"',
        r'"\\ud800"',
        "1.7e308",
        str(10**308),
        " [1]\n",
    ):
        assert sound(text) == json.loads(text)
