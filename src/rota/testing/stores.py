"""Stores of a test's own: a database lent to an application, and a new schema on PostgreSQL."""

from __future__ import annotations

import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.settings import Settings
from rota.store.open import open_store
from rota.testing.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.app import App


@contextmanager
def temporary(app: App, url: str, clock: Clock | None = None) -> Iterator[Clock]:
    """Let an app use another database and clock during the block.

    The database is created if it does not exist, and keeps what it holds: name a new one for an empty start. It knows
    the schedules of the app from the start.

    Args:
        app: The application.
        url: The database.
        clock: Its clock; by default one that starts now and stands still.

    Returns:
        A context manager that yields the clock.
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
    """Declare the app's schedules, as a worker's hello does; over HTTP only an orchestrator may."""
    if app.schedules and app.store.link is None:
        app.store.schedules.declare(list(app.schedules.values()))


@contextmanager
def fresh_schema(url: str) -> Iterator[str]:
    """Create an empty schema in a PostgreSQL database for the block, and drop it at the end.

    Args:
        url: The database. Its role needs the right to create schemas there.

    Returns:
        A context manager that yields the URL of the schema.
    """
    from rota.store.postgres.connection import address, with_schema
    from rota.store.postgres.open import remove

    settings, own = Settings(), with_schema(address(url).url, f"rota_test_{secrets.token_hex(8)}")
    with open_store(own, settings, make=True) as store:
        runs = store.database.runs
    try:
        yield own
    finally:
        remove(own, settings)
        shutil.rmtree(runs, ignore_errors=True)
