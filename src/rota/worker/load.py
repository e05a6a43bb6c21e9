"""Finding the application that `module:name` means."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from rota.core.errors import BadInput

if TYPE_CHECKING:
    from rota.app import App


def load_app(text: str) -> App:
    """The `App` that `module:name` names, looked for from the current folder."""
    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise BadInput(f"{text!r} does not name an app: write module:name, such as shop:app")
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    app = getattr(import_module(module), name, None)
    if app is None or not hasattr(app, "tasks"):
        raise BadInput(f"{module} has no App called {name!r}")
    return app  # type: ignore[no-any-return]
