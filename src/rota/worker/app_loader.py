"""Load the application that `module:name` names."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from importlib import import_module
from typing import TYPE_CHECKING

from rota.core.errors import BadInput, RotaError
from rota.core.source import KIND
from rota.worker.handler import LONGEST_TEXT, describe

if TYPE_CHECKING:
    from types import ModuleType

    from rota.app import App

LONGEST_LINE = 120


def load_app(text: str) -> App:
    """Return the `App` that `module:name` names, looked for from the current folder.

    Raises:
        BadInput: The module cannot be imported, or has no such application.
    """
    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise BadInput(f"{text!r} does not name an app: write module:name, such as shop:app")
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    imported = _import(module)
    app = getattr(imported, name, None)
    if app is None or not hasattr(app, "tasks"):
        apps = [key for key, value in vars(imported).items() if hasattr(value, "tasks") and hasattr(value, "prepare")]
        hint = f"; it has {', '.join(map(repr, apps))}" if apps else f"; write `{name} = App()` there"
        raise BadInput(f"{module} has no App called {name!r}{hint}")
    return app  # type: ignore[no-any-return]


def _import(module: str) -> ModuleType:
    """Import the user's module; what keeps it from being imported becomes one line."""
    try:
        return import_module(module)
    except RotaError as problem:
        raise BadInput(f"{problem}{_where(problem)}") from problem
    except (Exception, SystemExit) as problem:
        missing = problem.name if isinstance(problem, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            text = f"there is no module {missing!r} in {os.getcwd()}, nor where Python looks"
            raise BadInput(f"{text}: write module:name, such as shop:app") from None
        raise BadInput(f"module {module} cannot be imported: {_blame(problem)}") from problem


def _blame(problem: BaseException) -> str:
    """Return what was raised, and the last line of the user's own code that led there, not one of a library."""
    where = _where(problem)
    if not where:
        return describe(problem)
    text = problem.msg if isinstance(problem, SyntaxError) else str(problem)[:LONGEST_TEXT]
    return ": ".join(part for part in (type(problem).__name__, text) if part) + where


def _where(problem: BaseException) -> str:
    """Return the user's own line, with its number and file; empty if there is none."""
    import traceback

    if isinstance(problem, SyntaxError) and problem.filename:
        file, number, line = problem.filename, problem.lineno, problem.text
    else:
        own = [frame for frame in traceback.extract_tb(problem.__traceback__) if _is_own(frame.filename)]
        if not own:
            return ""
        file, number, line = own[-1].filename, own[-1].lineno, own[-1].line
    shown = f": {line.strip()[:LONGEST_LINE]}" if line and line.strip() else ""
    return f" (line {number} of {file.rpartition('/')[2]}{shown})"


def _is_own(file: str) -> bool:
    """Whether a file is the user's: not of Python, not installed, and not of rota."""
    paths = sysconfig.get_paths()
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    others = (*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), ours)
    return not file.startswith("<") and not os.path.abspath(file).startswith(tuple(f"{folder}/" for folder in others))


def main() -> None:
    """Run `python -m rota.worker.app_loader module:name FD`: write what the app declares to that descriptor."""
    answer: dict[str, object]
    try:
        app = load_app(sys.argv[1])
        tasks = {kind: task.queue for kind, task in app.tasks.items() if not kind.startswith(KIND)}
        answer = {"tasks": tasks, "problem": None}
    except RotaError as problem:
        answer = {"tasks": {}, "problem": str(problem)}
    with open(int(sys.argv[2]), "w", encoding="utf-8") as file:
        json.dump(answer, file)
    sys.stdout.flush()
    # Not `sys.exit`: the user's imports may have started threads, which would be waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
