"""The shape of a verb, from which its parser, its help, its completion and its page in the docs are made."""

from __future__ import annotations

from rota.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.cli.invocation import Call


class Argument(Record):
    """A positional word. `kind` names how it is read (see `rota.cli.parser`); `env` is used when it is missing."""

    name: str
    help: str
    kind: str = "text"
    env: str | None = None
    required: bool = True
    many: bool = False
    choices: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.name

    @property
    def key(self) -> str:
        """The name under which the function finds its value."""
        return self.name.lower().replace("-", "_")


class Option(Record):
    """A word that starts with `--`. Without a `metavar` it is a switch; `bare` makes its value optional."""

    flag: str
    help: str
    metavar: str | None = None
    kind: str = "text"
    default: str | None = None
    env: str | None = None
    many: bool = False
    required: bool = False
    bare: bool = False
    choices: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.flag

    @property
    def key(self) -> str:
        """The name under which the function finds its value."""
        return self.flag[2:].replace("-", "_")


class Verb(Record):
    """A verb of the command line. A call of a `hot` one is parsed by hand, because loops make it (decision 5)."""

    name: str
    help: str
    example: str
    run: Callable[[Call], int]
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    aliases: tuple[str, ...] = ()
    hot: bool = False

    @property
    def usage(self) -> str:
        """The line that shows how the verb is written."""
        words = ["rota", self.name]
        for argument in self.arguments:
            word = argument.name + ("…" if argument.many else "")
            words.append(word if argument.required and argument.env is None else f"[{word}]")
        for option in self.options:
            value = "" if option.metavar is None else f" [{option.metavar}]" if option.bare else f" {option.metavar}"
            word = f"{option.flag}{value}"
            words.append(word if option.required else f"[{word}]")
        return " ".join(words)


def verb(
    name: str,
    help: str,
    example: str,
    arguments: tuple[Argument, ...] = (),
    options: tuple[Option, ...] = (),
    aliases: tuple[str, ...] = (),
    hot: bool = False,
) -> Callable[[Callable[[Call], int]], Verb]:
    """Make a verb of the decorated function, which answers one call with an exit code."""
    return lambda run: Verb(name, help, example, run, arguments, options, aliases, hot)


DB = Option("--db", "the database: a path, sqlite:///path or postgresql://user@host/database", "URL", env="ROTA_DB")
JSON = Option("--json", "print one JSON document on stdout, and nothing else there")
HELP = Option("--help", "show this and leave")
GLOBAL = (DB, JSON, HELP)
