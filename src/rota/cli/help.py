"""`rota help`, `rota --help`, `rota --version`, and the error for an unknown command."""

from __future__ import annotations

import sys

from rota.cli.invocation import write
from rota.cli.verb import Argument, verb
from rota.cli.verbs import find, names, sections
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
    """Print what `rota`, `rota --help` and `rota --version` show."""
    if words and words[0] == "--version":
        from rota import __version__

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
    if not call["command"]:
        write(overview())
        return 0
    from rota.cli.argparse_parser import build

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
    known = names()
    group = sorted(name.partition(" ")[2] for name in known if name.startswith(f"{words[0]} "))
    if group and words[0] not in known:
        if len(words) > 1 and not words[1].startswith("-"):
            return BadInput(f"there is no command `{words[0]} {words[1]}`{_nearest(words[1], group, words[0])}")
        return BadInput(f"{words[0]} needs one of: {', '.join(group)}")
    if words[0] in OTHER_WORDS:
        return BadInput(f"there is no command `{words[0]}`: did you mean `rota {OTHER_WORDS[words[0]]}`?")
    candidates = sorted({*known, *(name.partition(" ")[0] for name in known)}, key=len)
    return BadInput(f"there is no command `{words[0]}`{_nearest(words[0], candidates)}")


def _nearest(word: str, candidates: Sequence[str], group: str = "") -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, candidates, 1)
    name = f"{group} {near[0]}".strip() if near else ""
    return f": did you mean `rota {name}`?" if name else ": `rota help` shows those that are"
