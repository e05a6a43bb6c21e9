"""The command line. `main` is the console script; `run` does the same for a list of words and answers the exit code."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.cli.invocation import Call
    from rota.cli.verb import Command

FAILURE, USAGE, INTERRUPTED = 1, 2, 130


def main() -> None:
    """Run the command that the process was started with, and leave without tearing the interpreter down."""
    _mend_streams()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # told already, or nobody reads it
        pass
    os._exit(code)


def run(words: Sequence[str]) -> int:
    """The exit code of one command; no mistake of a user raises."""
    from rota.core.errors import RotaError

    try:
        return _run(list(words))
    except RotaError as problem:
        return _report(str(problem), problem.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILURE
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        return _report(f"{where}{problem.strerror or problem}", FAILURE)
    except Exception as problem:
        return _internal(problem)


def _run(words: list[str]) -> int:
    from rota.core.errors import BadInput

    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise BadInput(f"{word!r} is not valid UTF-8") from None
    before = _leading_options(words)
    if not words or words[0] in ("--version", "--help", "-h"):
        from rota.cli.help import version_or_overview

        return version_or_overview(words)
    command, rest = _find(words)
    rest = before + rest
    from rota.cli.parser import once, split, values

    if not command.hot or "--help" in rest or "-h" in rest:
        from rota.cli.argparse_parser import parse

        texts = parse(command, rest)
        if texts is None:
            return 0
    else:
        texts = split(command, rest)
    from rota.cli.invocation import Call

    call = Call(
        values(command, texts, os.environ), "json" in texts, once("--db", texts["db"]) if "db" in texts else None
    )
    return _function(command)(call)


def _mend_streams() -> None:
    """Output that is closed goes nowhere; one of few letters spells out what it has no letters for."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the end
    if sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _leading_options(words: list[str]) -> list[str]:
    """Take `--json` and `--db URL` from before the command."""
    taken: list[str] = []
    while words and (words[0] in ("--json", "--db") or words[0].startswith("--db=")):
        count = 2 if words[0] == "--db" else 1
        taken += words[:count]
        del words[:count]
    return taken


def _find(words: list[str]) -> tuple[Command, list[str]]:
    """The command that the first words name, and the words after it."""
    from rota.cli.verb import join
    from rota.cli.verbs.work_table import CLAIMS, JOBS, WORKERS

    known = join((*JOBS, *CLAIMS, *WORKERS))
    found = _named(words, known)
    if found is None:  # the others take longer to read than many a command takes to run
        from rota.cli.table import COMMANDS

        known = join(tuple(COMMANDS))
        found = _named(words, known)
    if found is not None:
        return found
    from rota.cli.help import unknown

    raise unknown(words, list(known))


def _named(words: list[str], known: dict[str, Command]) -> tuple[Command, list[str]] | None:
    for length in (2, 1):
        if (name := " ".join(words[:length])) in known and len(words) >= length:
            return known[name], words[length:]
    return None


def _function(command: Command) -> Callable[[Call], int]:
    module, _, name = command.run.partition(":")
    found = __import__(f"rota.cli.{module}", fromlist=(name,))
    function: Callable[[Call], int] = getattr(found, name)
    return function


def _report(message: str, code: int) -> int:
    from rota.cli.invocation import aside

    try:
        aside(message)
    except OSError:  # nobody reads what we say; the exit code still tells
        pass
    return code


def _internal(problem: Exception) -> int:
    if os.environ.get("ROTA_DEBUG") == "1":
        import traceback

        traceback.print_exc()
        return FAILURE
    text = f"{type(problem).__name__}: {problem}"
    return _report(f"a bug in rota, please report it with the output of ROTA_DEBUG=1: {text}", FAILURE)
