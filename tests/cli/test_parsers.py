"""Both parsers read the same words alike, and every verb is complete."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.cli.help import OTHER_WORDS, build, parse
from rota.cli.parser import KINDS, split, values
from rota.cli.verb import Verb
from rota.cli.verbs import all_verbs, by_name, names
from rota.core.errors import BadInput

if TYPE_CHECKING:
    from rota.cli.parser import Texts
    from tests.support.shell import Shell

VERBS = {verb.name: verb for verb in all_verbs()}


def read(parser: str, verb: Verb, words: list[str]) -> Texts | str:
    """What one parser makes of some words; a refusal is a refusal, whatever its text."""
    try:
        found = split(verb, words) if parser == "hand" else parse(verb, words)
    except BadInput:
        return "refused"
    assert found is not None
    return found


@st.composite
def lines(draw: st.DrawFn) -> tuple[Verb, list[str]]:
    verb = draw(st.sampled_from(list(VERBS.values())))
    flags = [option.flag for option in verb.options] + ["--json", "--db"]
    word = st.sampled_from([*flags, "5", "-5", "x", "", "null", "--nonsense", "a b", "--", "-"])
    return verb, draw(st.lists(word, max_size=6))


@given(lines())
def test_both_parsers_read_the_same_words_alike(line: tuple[Verb, list[str]]) -> None:
    verb, words = line
    assert read("hand", verb, words) == read("argparse", verb, words)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_a_help_with_an_example_and_known_kinds(name: str) -> None:
    verb = VERBS[name]
    assert verb.example.startswith(("rota ", "eval ")) and f"rota {name}" in verb.example
    assert verb.help[0].islower() and not verb.help.endswith(".")
    assert {each.kind for each in verb.arguments} | {each.kind for each in verb.options} <= set(KINDS)
    shown = build(verb).format_help()
    assert f"example: {verb.example}" in shown
    for option in verb.options:
        assert option.flag in shown and option.help.split()[0] in shown


@pytest.mark.parametrize("name", VERBS)
def test_the_example_of_every_command_parses(name: str) -> None:
    import shlex

    words = shlex.split(VERBS[name].example.partition("|")[0].removeprefix('eval "$(').removesuffix(')"'))
    rest = words[1 + len(name.split()) :]
    verb = VERBS[name]
    texts = split(verb, rest)
    assert texts == parse(verb, rest)
    keys = {argument.key for argument in verb.arguments} | {option.key for option in verb.options}
    assert set(values(verb, texts, {})) == keys


def test_help_is_shown_for_every_way_to_ask(shell: Shell) -> None:
    overview = shell.say("--help")
    assert all(verb.name in overview and verb.help in overview for verb in VERBS.values())
    assert shell.say("help") == shell.say("-h") == overview
    page = shell.say("claim", "--help")
    assert page == shell.say("claim", "5", "-h") == shell.say("help", "claim")
    assert page.startswith("usage: rota claim ") and "example: rota claim 5" in page
    assert "ROTA_JOB_ID" in page and "default 30m" in page
    assert "also: rota claim release" in shell.say("help", "claim:release")
    assert "did you mean" in shell.refuse("help", "clam", code=2)


def test_rota_alone_shows_what_there_is_and_is_a_usage_error(shell: Shell) -> None:
    answer = shell.call()
    assert (answer.returncode, answer.stdout) == (2, "") and "usage: rota" in answer.stderr


def test_version(shell: Shell) -> None:
    from rota import __version__

    assert shell.say("--version") == f"rota {__version__}"


def test_the_index_has_every_name_and_alias_once() -> None:
    assert names() == list(by_name()) == [name for verb in VERBS.values() for name in (verb.name, *verb.aliases)]


def test_every_verb_that_a_module_declares_is_in_the_index() -> None:
    modules = {sys.modules[verb.run.__module__] for verb in VERBS.values()}
    declared = [value for module in modules for value in vars(module).values() if isinstance(value, Verb)]
    assert sorted(verb.name for verb in declared) == sorted(VERBS)


def test_every_word_from_another_program_leads_to_a_command_that_exists(shell: Shell) -> None:
    for word, command in OTHER_WORDS.items():
        assert f"did you mean `rota {command}`?" in shell.refuse(word, code=2)
        assert command in shell.say("help", *command.split())
