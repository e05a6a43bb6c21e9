"""A store of a test's own for an application that was made with another."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.testing.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.app import App


@contextmanager
def temporary(app: App, url: str, clock: Clock | None = None) -> Iterator[Clock]:
    """Let an app use this database, made where there is none, by a clock of the test's own; then its own again.

    What is in the database stays there, before and after: name a new one where a test should begin empty. The schedules
    that the app declares are known in it from the start.
    """
    clock = clock or Clock()
    before = app._url, app._clock
    app.close()
    app._url, app._clock = url, clock
    try:
        declare(app)
        yield clock
    finally:
        app.close()
        app._url, app._clock = before


def declare(app: App) -> None:
    """Do what the hello of a worker does; over HTTP only an orchestrator may."""
    if app.schedules and app.store.link is None:
        app.store.schedules.declare(list(app.schedules.values()))
