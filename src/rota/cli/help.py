"""`rota help`, `rota --help`, `rota --version`, and what to say of a command that is not there."""

from __future__ import annotations

import sys

from rota.cli.invocation import write
from rota.cli.table import COMMANDS, SECTIONS
from rota.cli.verb import join
from rota.core.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.cli.invocation import Call

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
    """What `rota`, `rota --help` and `rota --version` print."""
    if words and words[0] == "--version":
        from rota import __version__

        write(f"rota {__version__}\n")
        return 0
    if words:
        write(overview())
        return 0
    sys.stderr.write(overview())
    return BadInput.exit_code


def help_command(call: Call) -> int:
    """All commands, or one."""
    if not call["command"]:
        write(overview())
        return 0
    from rota.cli.argparse_parser import build

    words = call["command"]
    known = join(tuple(COMMANDS))
    if " ".join(words) not in known:
        raise unknown(words, list(known))
    write(build(known[" ".join(words)]).format_help())
    return 0


def overview() -> str:
    """Every command with its line, and the exit codes."""
    widest = max(len(command.name) for command in COMMANDS)
    lines = [_OVERVIEW]
    for title, commands in SECTIONS:
        lines += [f"{title}:", *(f"  {command.name:<{widest}}  {command.help}" for command in commands), ""]
    lines += ["Exit codes:", *(f"  {code}  {meaning}" for code, meaning in EXIT_CODES), ""]
    lines += ["`rota COMMAND --help` shows its options and an example."]
    return "\n".join(lines) + "\n"


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether `--help` or `-h` is among the options."""
    options = words[: list(words).index("--")] if "--" in words else words
    return "--help" in options or "-h" in options


# Words that people bring from other programs, and the command that does it here.
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


def unknown(words: Sequence[str], known: Sequence[str]) -> BadInput:
    """A command that is not there: what its group has, or the nearest by name."""
    group = sorted(name.partition(" ")[2] for name in known if name.startswith(f"{words[0]} "))
    if group and words[0] not in known:
        if len(words) > 1 and not words[1].startswith("-"):
            return BadInput(f"there is no command `{words[0]} {words[1]}`{_nearest(words[1], group, words[0])}")
        return BadInput(f"{words[0]} needs one of: {', '.join(group)}")
    if words[0] in OTHER_WORDS:
        return BadInput(f"there is no command `{words[0]}`: did you mean `rota {OTHER_WORDS[words[0]]}`?")
    names = sorted({*known, *(name.partition(" ")[0] for name in known)}, key=len)
    return BadInput(f"there is no command `{words[0]}`{_nearest(words[0], names)}")


def _nearest(word: str, known: Sequence[str], group: str = "") -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1)
    name = f"{group} {near[0]}".strip() if near else ""
    return f": did you mean `rota {name}`?" if name else ": `rota help` shows those that are"
