"""Stores for tests: a temporary database for an application, with a clock, and a new schema on PostgreSQL."""

from __future__ import annotations

import secrets
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.core.errors import BadInput
from rota.core.times import format_instant, parse_duration, parse_instant
from rota.settings import Settings
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.app import App
    from rota.core.times import Instant


class Clock:
    """The clock of a temporary store, which only a test moves forward.

    Args:
        at: When it starts, such as `"2026-03-28T12:00Z"`; by default now.
    """

    def __init__(self, at: str | None = None) -> None:
        now = time.time_ns() // 1000
        self._now = now if at is None else parse_instant(at, now)

    def forward(self, by: str) -> None:
        """Let time pass, such as `"1h30m"`."""
        self._now += parse_duration(by)

    def forward_to(self, at: str) -> None:
        """Let time pass until a moment.

        Raises:
            BadInput: It is in the past of this clock.
        """
        instant = parse_instant(at, self._now)
        if instant < self._now:
            raise BadInput(f"{at} is behind the clock, which says {self}: it only goes forward")
        self._now = instant

    def now(self) -> Instant:
        return self._now

    def wall(self) -> Instant:
        return self._now

    def __str__(self) -> str:
        return format_instant(self._now)


@contextmanager
def temporary(app: App, url: str, clock: Clock | None = None) -> Iterator[Clock]:
    """Let an app use another database and clock during the block.

    The database is created if it does not exist, and keeps what it holds: name a new one for an empty start. It knows
    the schedules of the app from the start.

    Args:
        app: The application.
        url: The database.
        clock: Its clock; by default one that starts now and does not move.

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
