"""The page of the command line, generated from the entries of its verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs.pages.markdown import code, join, sentence, table
from rota.cli.verb import GLOBAL
from rota.cli.verbs import sections

if TYPE_CHECKING:
    from rota.cli.verb import Argument, Option, Verb

INTRODUCTION = """\
# Command line

`rota COMMAND --help` says the same as this page. Text is for people: aligned, coloured on a terminal and never in a
pipe, with control characters taken out. `--json` is for programs: one document on standard output and nothing else
there; what a person should know goes to standard error. On a terminal the same document is laid out, with an escape
such as `\\u009b` for each letter that could steer it. The [shapes](json.md) are a contract, and so are the [exit
codes](errors.md).

The database is `.rota/rota.db` in the current folder or the nearest one above; `--db` or `ROTA_DB` say otherwise, and
may name [PostgreSQL](../howto/postgres.md). `init`, `add` and `worker register` make a missing one and say so; every
other command exits 3."""


def page() -> str:
    parts = [INTRODUCTION, "## Options of every command", _options(GLOBAL)]
    for title, verbs in sections().items():
        parts.append(f"## {title}")
        parts.append(table(("command", "what it does"), [(_link(verb), sentence(verb.help)) for verb in verbs]))
        for verb in verbs:
            parts += _verb(verb)
    return join(*parts)


def _link(verb: Verb) -> str:
    return f"[`{verb.name}`](#rota-{_anchor(verb.name)})"


def _anchor(name: str) -> str:
    return name.replace(" ", "-").replace(":", "")


def _verb(verb: Verb) -> list[str]:
    parts = [f"### rota {verb.name}", sentence(verb.help), f"```text\n{verb.usage}\n```"]
    if verb.aliases:
        parts.append("Also: " + ", ".join(code(f"rota {alias}") for alias in verb.aliases) + ".")
    if verb.arguments:
        rows = [_argument(each) for each in verb.arguments]
        parts.append(table(("argument", "meaning", "or from"), rows))
    if verb.options:
        parts.append(_options(verb.options))
    parts.append(f"```console\n$ {verb.example}\n```")
    return parts


def _argument(argument: Argument) -> tuple[str, str, str]:
    name = code(argument.name + ("…" if argument.many else ""))
    return name, sentence(argument.help), code(argument.env) if argument.env else ""


def _options(options: tuple[Option, ...]) -> str:
    rows = []
    for option in options:
        value = "" if option.metavar is None else f" [{option.metavar}]" if option.bare else f" {option.metavar}"
        meaning = sentence(option.help)
        if option.choices:
            meaning += " One of " + ", ".join(code(choice) for choice in option.choices) + "."
        if option.required:
            meaning += " Required."
        default = code(option.default) if option.default else ""
        rows.append((code(option.flag + value), meaning, default, code(option.env) if option.env else ""))
    return table(("option", "meaning", "default", "or from"), rows)
