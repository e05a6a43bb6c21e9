"""Finding the application that `module:name` means."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from rota.core.errors import BadInput, RotaError
from rota.worker.handler import told

if TYPE_CHECKING:
    from types import ModuleType

    from rota.app import App


def load_app(text: str) -> App:
    """The `App` that `module:name` names, looked for from the current folder."""
    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise BadInput(f"{text!r} does not name an app: write module:name, such as shop:app")
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    app = getattr(_import(module), name, None)
    if app is None or not hasattr(app, "tasks"):
        raise BadInput(f"{module} has no App called {name!r}")
    return app  # type: ignore[no-any-return]


def _import(module: str) -> ModuleType:
    """Whatever keeps the user's module from being imported is said in one line."""
    try:
        return import_module(module)
    except RotaError:
        raise
    except Exception as problem:
        missing = problem.name if isinstance(problem, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            text = f"there is no module {missing!r} in {os.getcwd()}, nor where Python looks"
            raise BadInput(f"{text}: write module:name, such as shop:app") from None
        raise BadInput(f"module {module} cannot be imported: {told(problem)}") from problem
