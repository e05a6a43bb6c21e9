"""The pytest plugin: fixtures for an app with a store and a clock for each test. Pytest finds it by itself.

`rota_app = shop:app` in pytest's settings names the app; without it the app is new and empty.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.app import App
    from rota.testing.stores import Clock

SETTING = "rota_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(SETTING, "the app that the fixture of this name gives, such as shop:app")


@pytest.fixture
def rota_clock() -> Clock:
    """The clock of `rota_app`, which only moves with calls such as `rota_clock.forward("1h")`."""
    from rota.testing.stores import Clock

    return Clock()


@pytest.fixture(scope="session")
def rota_database() -> str | None:
    """The PostgreSQL database in which each `rota_app` gets a schema of its own; None for a SQLite file.

    By default `ROTA_TEST_DB` names it. Override this fixture if your tests find their database in another way.
    """
    return os.environ.get("ROTA_TEST_DB") or None


@pytest.fixture
def rota_app(
    request: pytest.FixtureRequest, rota_database: str | None, rota_clock: Clock, tmp_path: Path
) -> Iterator[App]:
    """The app, with an empty store for this test: a file in its folder, or a schema in `rota_database`."""
    from rota.app import App
    from rota.testing.stores import fresh_schema, temporary
    from rota.worker.app_loader import load_app

    address = str(request.config.getini(SETTING))
    app = load_app(address) if address else App()
    database = fresh_schema(rota_database) if rota_database else nullcontext(f"sqlite:///{tmp_path}/rota.db")
    with database as url, temporary(app, url, rota_clock):
        yield app
