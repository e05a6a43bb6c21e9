"""The command line's page, made from the table that its parsers are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs.pages.markdown import code, join, sentence, table
from rota.cli.table import GLOBAL, SECTIONS

if TYPE_CHECKING:
    from rota.cli.verb import Argument, Command, Option

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
    for title, commands in SECTIONS:
        parts.append(f"## {title}")
        parts.append(table(("command", "what it does"), [(_link(each), sentence(each.help)) for each in commands]))
        for command in commands:
            parts += _command(command)
    return join(*parts)


def _link(command: Command) -> str:
    return f"[`{command.name}`](#rota-{_anchor(command.name)})"


def _anchor(name: str) -> str:
    return name.replace(" ", "-").replace(":", "")


def _command(command: Command) -> list[str]:
    parts = [f"### rota {command.name}", sentence(command.help), f"```text\n{command.usage}\n```"]
    if command.aliases:
        parts.append("Also: " + ", ".join(code(f"rota {alias}") for alias in command.aliases) + ".")
    if command.arguments:
        rows = [_argument(each) for each in command.arguments]
        parts.append(table(("argument", "meaning", "or from"), rows))
    if command.options:
        parts.append(_options(command.options))
    parts.append(f"```console\n$ {command.example}\n```")
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
