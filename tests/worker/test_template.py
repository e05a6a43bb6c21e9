"""Templates of a command: data is filled into one word, and never becomes a program or an option."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.errors import BadInput
from rota.worker.template import fill, parse

JOB: dict[str, Any] = {
    "id": 7,
    "title": "a b",
    "queue": "media",
    "kind": "convert",
    "payload": {"path": "x.wav", "a": {"b": [1, {"c": None}]}, "on": True, "dash": "-rf", "empty": "", "brace": "{id}"},
}


def filled(*words: str) -> list[str]:
    return fill(parse(["run", *words]), JOB)[1:]


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{id}", "7"),
        ("{title}", "a b"),
        ("{queue}/{kind}", "media/convert"),
        ("{payload.path}", "x.wav"),
        ("{payload.a.b.0}", "1"),
        ("{payload.a.b.1.c}", "null"),
        ("{payload.a}", '{"b":[1,{"c":null}]}'),
        ("{payload.on}", "true"),
        ("--title={title}", "--title=a b"),
        ("--x={payload.dash}", "--x=-rf"),
        ("./{payload.dash}", "./-rf"),
        ("{{id}} {{{id}}}", "{id} {7}"),
        ("{payload.brace}", "{id}"),
        ("-v", "-v"),
        ("{payload.empty}", ""),
    ],
)
def test_what_a_word_becomes(word: str, wanted: str) -> None:
    assert filled(word) == [wanted]


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("{payload.gone}", "the job has no payload.gone"),
        ("{payload.a.x.y}", "the job has no payload.a.x, which {payload.a.x.y} needs"),
        ("{payload.path.x}", "the job has no payload.path.x"),
        ("{payload.a.b.2}", "the job has no payload.a.b.2"),
        ("{payload.dash}", "would begin with a dash because of the data"),
        ("{payload.empty}-x", "would begin with a dash because of the data"),
    ],
)
def test_data_that_does_not_fit_is_named(word: str, text: str) -> None:
    with pytest.raises(BadInput, match=text.replace("{", r"\{")):
        filled(word)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "a command is a list of words"),
        ("ls -l", "a command is a list of words"),
        ([1], "a command is a list of words"),
        (["{title}"], "the program must be named by the command itself"),
        (["./{kind}"], "the program must be named by the command itself"),
        ([""], "the program must be named by the command itself"),
        (["run", "{"], "an opening brace without a closing one"),
        (["run", "a}"], "a closing brace without an opening one"),
        (["run", "{}"], "which is nothing of a job"),
        (["run", "{token}"], "which is nothing of a job"),
        (["run", "{id.x}"], "which is nothing of a job"),
        (["run", "{payload.}"], "which is nothing of a job"),
    ],
)
def test_a_template_that_makes_no_sense_is_refused_when_it_is_declared(words: Any, text: str) -> None:
    with pytest.raises(BadInput, match=text):
        parse(words)


@given(st.text(), st.text())
def test_whatever_the_data_holds_a_word_stays_one_word_and_no_option(title: str, path: str) -> None:
    job = {**JOB, "title": title, "payload": {"path": path}}
    try:
        words = fill(parse(["run", "{title}", "--path={payload.path}", "end"]), job)
    except BadInput:
        assert "\0" in title + path or title.startswith("-")
    else:
        assert words == ["run", title, f"--path={path}", "end"]
