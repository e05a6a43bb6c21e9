"""`main` is the console script; `run` takes a list of words and returns the exit code."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FAILURE, INTERRUPTED = 1, 130


def main() -> None:
    """Run the command line of this process, and exit without tearing the interpreter down."""
    _repair_streams()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        # It was reported when the answer was written, or the reader of a pipe has gone.
        pass
    # Tearing the interpreter down would take longer than a hot verb runs (decision 5). Everything is flushed.
    os._exit(code)


def run(words: Sequence[str]) -> int:
    """Run one verb and return its exit code. Errors are printed on stderr, never raised."""
    from rota.core.errors import RotaError

    try:
        return _run(list(words))
    except RotaError as problem:
        return _report(str(problem), problem.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone, as in `rota list | head -1`. With /dev/null in its place the last flush cannot fail.
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
    # Every import below is made as late as this: a hot verb pays for each of them (decision 5).
    from rota.cli.verbs import find

    match = find(words)
    if match is None:
        from rota.cli.help import unknown

        raise unknown(words)
    verb, rest = match
    rest = before + rest
    from rota.cli.parser import once, split, values

    if not verb.hot or "--help" in rest or "-h" in rest:
        from rota.cli.help import parse

        texts = parse(verb, rest)
        if texts is None:
            return 0
    else:
        texts = split(verb, rest)
    from rota.cli.invocation import Call

    call = Call(values(verb, texts, os.environ), "json" in texts, once("--db", texts["db"]) if "db" in texts else None)
    return verb.run(call)


def _repair_streams() -> None:
    """Replace closed output streams with /dev/null; escape what the encoding of stdout cannot express."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the end
    if sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _leading_options(words: list[str]) -> list[str]:
    """Remove `--json` and `--db URL` from before the verb, and return them."""
    taken: list[str] = []
    while words and (words[0] in ("--json", "--db") or words[0].startswith("--db=")):
        count = 2 if words[0] == "--db" else 1
        taken += words[:count]
        del words[:count]
    return taken


def _report(message: str, code: int) -> int:
    from rota.cli.invocation import aside

    try:
        aside(message)
    except OSError:
        # stderr was closed. The exit code still reports the failure.
        pass
    return code


def _internal(problem: Exception) -> int:
    if os.environ.get("ROTA_DEBUG") == "1":
        import traceback

        traceback.print_exc()
        return FAILURE
    text = f"{type(problem).__name__}: {problem}"
    return _report(f"a bug in rota, please report it with the output of ROTA_DEBUG=1: {text}", FAILURE)
