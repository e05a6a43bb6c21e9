"""The overview, the page of each verb, and the `argparse` parser of the verbs that no loop calls.

A hot verb is parsed by hand (decision 5), and by this parser only for its `--help`.
"""

from __future__ import annotations

import argparse
import sys

from rota.cli.invocation import write
from rota.cli.parser import BARE, looks_like_option, place, unknown_option, value
from rota.cli.verb import GLOBAL, Argument, verb
from rota.cli.verbs import find, names, sections
from rota.core.errors import BadInput
from rota.core.version import __version__

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from rota.cli.invocation import Call
    from rota.cli.parser import Texts
    from rota.cli.verb import Option, Verb

EXIT_CODES = (
    (0, "ok"),
    (1, "failure"),
    (2, "usage"),
    (3, "not found"),
    (4, "conflict: already claimed, or in a state that does not allow it"),
    (5, "stale: the token or the lease was lost"),
    (6, "refused: queue full, paused, nothing ready, not healthy"),
    (7, "register again: unknown worker"),
)
_OVERVIEW = """\
rota keeps a crew of worker processes alive and the work they hold safe.

usage: rota [--db URL] [--json] COMMAND …
"""


def version_or_overview(words: Sequence[str]) -> int:
    """Print what `rota`, `rota --help` and `rota --version` show."""
    if words and words[0] == "--version":
        write(f"rota {__version__}\n")
        return 0
    if words:
        write(overview())
        return 0
    sys.stderr.write(overview())
    return BadInput.exit_code


@verb(
    "help",
    "show all commands, or one",
    "rota help claim",
    (Argument("COMMAND", "the command", required=False, many=True),),
)
def help_command(call: Call) -> int:
    """Print the page of one verb, or the overview."""
    if not call["command"]:
        write(overview())
        return 0
    words = call["command"]
    match = find(words)
    if match is None or match[1]:
        raise unknown(words)
    write(build(match[0]).format_help())
    return 0


def overview() -> str:
    """Return every verb with its line of help, and the exit codes."""
    verbs_by_title = sections()
    widest = max(len(entry.name) for verbs in verbs_by_title.values() for entry in verbs)
    lines = [_OVERVIEW]
    for title, verbs in verbs_by_title.items():
        lines += [f"{title}:", *(f"  {entry.name:<{widest}}  {entry.help}" for entry in verbs), ""]
    lines += ["Exit codes:", *(f"  {code}  {meaning}" for code, meaning in EXIT_CODES), ""]
    lines += ["`rota COMMAND --help` shows its options and an example."]
    return "\n".join(lines) + "\n"


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether `--help` or `-h` is among the options."""
    options = words[: list(words).index("--")] if "--" in words else words
    return "--help" in options or "-h" in options


# Words from other programs, and the verb that does it here.
OTHER_WORDS = {
    **dict.fromkeys(("create", "enqueue", "new", "push", "submit"), "add"),
    **dict.fromkeys(("jobs", "ls"), "list"),
    **dict.fromkeys(("delete", "kill", "remove", "rm"), "cancel"),
    **dict.fromkeys(("start", "up"), "run"),
    **dict.fromkeys(("down", "stop"), "orchestrator stop"),
    **dict.fromkeys(("info", "stats", "status"), "orchestrator status"),
    **dict.fromkeys(("ps", "workers"), "worker list"),
    **dict.fromkeys(("dashboard", "ui", "web"), "open"),
    **dict.fromkeys(("get", "inspect"), "show"),
    "queues": "queue list",
}


def unknown(words: Sequence[str]) -> BadInput:
    """Return the error for an unknown command, which names the verbs of its group or the nearest name."""
    commands = names()
    group = sorted(name.partition(" ")[2] for name in commands if name.startswith(f"{words[0]} "))
    if group and words[0] not in commands:
        if len(words) > 1 and not words[1].startswith("-"):
            return BadInput(f"there is no command `{words[0]} {words[1]}`{_nearest(words[1], group, words[0])}")
        return BadInput(f"{words[0]} needs one of: {', '.join(group)}")
    if words[0] in OTHER_WORDS:
        return BadInput(f"there is no command `{words[0]}`: did you mean `rota {OTHER_WORDS[words[0]]}`?")
    candidates = sorted({*commands, *(name.partition(" ")[0] for name in commands)}, key=len)
    return BadInput(f"there is no command `{words[0]}`{_nearest(words[0], candidates)}")


def _nearest(word: str, candidates: Sequence[str], group: str = "") -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, candidates, 1)
    name = f"{group} {near[0]}".strip() if near else ""
    return f": did you mean `rota {name}`?" if name else ": `rota help` shows those that are"


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
    options, positional = _separated(verb, words)
    namespace, left = parser.parse_known_args(options)
    if left:
        raise unknown_option(verb, left[0].partition("=")[0])
    parsed = vars(namespace)
    texts: Texts = {option.key: parsed[option.key] for option in (*GLOBAL, *verb.options) if parsed[option.key]}
    place(verb, positional, texts)
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
    help = _explained(option.help, option.default, option.env)
    if option.metavar is None:
        parser.add_argument(option.flag, action="append_const", const=BARE, help=help)
    elif option.bare:
        parser.add_argument(option.flag, action="append", nargs="?", const=BARE, metavar=option.metavar, help=help)
    else:
        metavar = "{" + ",".join(option.choices) + "}" if option.choices else option.metavar
        parser.add_argument(option.flag, action="append", metavar=metavar, help=help)


def _explained(help: str, default: str | None, env: str | None) -> str:
    notes = [note for note in (default and f"default {default}", env and f"or set {env}") if note]
    return (f"{help} ({'; '.join(notes)})" if notes else help).replace("%", "%%")


def _epilog(verb: Verb) -> str:
    also = f"\nalso: {', '.join(f'rota {name}' for name in verb.aliases)}" if verb.aliases else ""
    return f"example: {verb.example}{also}"


def _separated(verb: Verb, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate the options from the positional words.

    Each option becomes one word with its value, because argparse refuses a value of its own word that starts with a
    dash.
    """
    flags = {option.flag: option for option in (*GLOBAL, *verb.options)}
    options: list[str] = []
    positional: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return options, positional + rest
        if not looks_like_option(word):
            positional.append(word)
        elif (option := flags.get(word)) and option.metavar:
            options.append(f"{word}={value(option, rest)}")
        else:
            options.append(word)
    return options, positional
