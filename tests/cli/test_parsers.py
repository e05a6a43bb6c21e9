"""One table, two parsers: they read the same words alike, and every command is whole."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.cli.argparse_parser import build, parse
from rota.cli.help import OTHER_WORDS
from rota.cli.parser import split, values
from rota.cli.table import COMMANDS
from rota.cli.types import KINDS
from rota.cli.verb import join
from rota.core.errors import BadInput

if TYPE_CHECKING:
    from rota.cli.parser import Texts
    from rota.cli.verb import Command
    from tests.support.shell import Shell

NAMED = {command.name: command for command in COMMANDS}


def read(parser: str, command: Command, words: list[str]) -> Texts | str:
    """What one parser makes of some words; a refusal is a refusal, whatever its text."""
    try:
        found = split(command, words) if parser == "hand" else parse(command, words)
    except BadInput:
        return "refused"
    assert found is not None
    return found


@st.composite
def lines(draw: st.DrawFn) -> tuple[Command, list[str]]:
    command = draw(st.sampled_from(COMMANDS))
    flags = [option.flag for option in command.options] + ["--json", "--db"]
    word = st.sampled_from([*flags, "5", "-5", "x", "", "null", "--nonsense", "a b", "--", "-"])
    return command, draw(st.lists(word, max_size=6))


@given(lines())
def test_both_parsers_read_the_same_words_alike(line: tuple[Command, list[str]]) -> None:
    command, words = line
    assert read("hand", command, words) == read("argparse", command, words)


@pytest.mark.parametrize("name", NAMED)
def test_every_command_has_a_function_a_help_with_an_example_and_known_kinds(name: str) -> None:
    command = NAMED[name]
    module, _, function = command.run.partition(":")
    assert callable(getattr(import_module(f"rota.cli.{module}"), function))
    assert command.example.startswith(("rota ", "eval ")) and f"rota {name}" in command.example
    assert command.help[0].islower() and not command.help.endswith(".")
    assert {each.kind for each in command.arguments} | {each.kind for each in command.options} <= set(KINDS)
    shown = build(command).format_help()
    assert f"example: {command.example}" in shown
    for option in command.options:
        assert option.flag in shown and option.help.split()[0] in shown


@pytest.mark.parametrize("name", NAMED)
def test_the_example_of_every_command_parses(name: str) -> None:
    import shlex

    words = shlex.split(NAMED[name].example.partition("|")[0].removeprefix('eval "$(').removesuffix(')"'))
    rest = words[1 + len(name.split()) :]
    command = NAMED[name]
    texts = split(command, rest)
    assert texts == parse(command, rest)
    keys = {argument.key for argument in command.arguments} | {option.key for option in command.options}
    assert set(values(command, texts, {})) == keys


def test_help_is_shown_for_every_way_to_ask(shell: Shell) -> None:
    overview = shell.say("--help")
    assert all(command.name in overview and command.help in overview for command in COMMANDS)
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


def test_names_are_unique() -> None:
    assert len(join(tuple(COMMANDS))) == sum(1 + len(command.aliases) for command in COMMANDS)


def test_every_word_from_another_program_leads_to_a_command_that_exists(shell: Shell) -> None:
    for word, command in OTHER_WORDS.items():
        assert f"did you mean `rota {command}`?" in shell.refuse(word, code=2)
        assert command in shell.say("help", *command.split())
