"""The `argparse` parser of a verb: for verbs that no loop calls, and for every `--help`."""

from __future__ import annotations

import argparse

from rota.cli.help import asks_for_help
from rota.cli.invocation import write
from rota.cli.parser import BARE, looks_like_option, place, unknown_option, value
from rota.cli.verb import GLOBAL
from rota.core.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from rota.cli.parser import Texts
    from rota.cli.verb import Option, Verb


class _Parser(argparse.ArgumentParser):
    """A parser that raises instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}: {self.usage}")


def parse(verb: Verb, words: Sequence[str]) -> Texts | None:
    """Return the texts of each argument and option, or None after showing help."""
    parser = build(verb)
    if asks_for_help(words):
        write(parser.format_help())
        return None
    options, places = _separated(verb, words)
    found, left = parser.parse_known_args(options)
    if left:
        raise unknown_option(verb, left[0].partition("=")[0])
    given = vars(found)
    texts: Texts = {option.key: given[option.key] for option in (*GLOBAL, *verb.options) if given[option.key]}
    place(verb, places, texts)
    return texts


def build(verb: Verb) -> argparse.ArgumentParser:
    """Return the parser of one verb. Nothing is required here, because the environment may supply it."""
    parser = _Parser(
        prog=f"rota {verb.name}",
        usage=verb.usage,
        description=verb.help[0].upper() + verb.help[1:] + ".",
        epilog=_epilog(verb),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    for argument in verb.arguments:
        parser.add_argument(
            argument.key,
            nargs="*" if argument.many else "?",
            metavar=argument.name,
            help=_explained(argument.help, None, argument.env),
        )
    for option in (*verb.options, *GLOBAL):
        _add(parser, option)
    return parser


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    told = _explained(option.help, option.default, option.env)
    if option.metavar is None:
        parser.add_argument(option.flag, action="append_const", const=BARE, help=told)
    elif option.bare:
        parser.add_argument(option.flag, action="append", nargs="?", const=BARE, metavar=option.metavar, help=told)
    else:
        metavar = "{" + ",".join(option.choices) + "}" if option.choices else option.metavar
        parser.add_argument(option.flag, action="append", metavar=metavar, help=told)


def _explained(help: str, default: str | None, env: str | None) -> str:
    notes = [note for note in (default and f"default {default}", env and f"or set {env}") if note]
    return (f"{help} ({'; '.join(notes)})" if notes else help).replace("%", "%%")


def _epilog(verb: Verb) -> str:
    also = f"\nalso: {', '.join(f'rota {name}' for name in verb.aliases)}" if verb.aliases else ""
    return f"example: {verb.example}{also}"


def _separated(verb: Verb, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options, each in one word with its value so that one may start with a dash, and the words without a flag."""
    flags = {option.flag: option for option in (*GLOBAL, *verb.options)}
    options: list[str] = []
    places: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return options, places + rest
        if not looks_like_option(word):
            places.append(word)
        elif (option := flags.get(word)) and option.metavar:
            options.append(f"{word}={value(option, rest)}")
        else:
            options.append(word)
    return options, places
