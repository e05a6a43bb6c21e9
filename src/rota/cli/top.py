"""`top`: what happens now, on the whole terminal; elsewhere once, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.errors import RotaError

if TYPE_CHECKING:
    from rota.cli.call import Call
    from rota.store.store import Store

NEEDED = "rota top needs textual: install it with `python -m pip install textual`"


def top(call: Call) -> int:
    """Show it until somebody leaves."""
    try:
        from rota.top.app import run
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in ("rich", "textual"):
            raise
        raise RotaError(NEEDED) from problem
    settings = call.settings()
    call.store().close()  # what is wrong with the database is told now, not on the screen

    def open_store() -> Store:
        from rota.store.open import open_store

        return open_store(settings.db, settings)

    return run(open_store)
