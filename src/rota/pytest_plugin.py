"""For pytest, which finds it by itself: an app with a store and a clock of the test's own.

`rota_app = shop:app` in pytest's settings says which; without it the app is a new one, for the test to fill.
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
    """The clock of `rota_app`: it stands still until `rota_clock.forward("1h")`."""
    from rota.testing.stores import Clock

    return Clock()


@pytest.fixture(scope="session")
def rota_database() -> str | None:
    """The PostgreSQL database in which each `rota_app` gets a schema of its own; None: it gets a file.

    It is what `ROTA_TEST_DB` names. Override it where your tests know theirs in another way.
    """
    return os.environ.get("ROTA_TEST_DB") or None


@pytest.fixture
def rota_app(
    request: pytest.FixtureRequest, rota_database: str | None, rota_clock: Clock, tmp_path: Path
) -> Iterator[App]:
    """The app, with an empty store of the test's own: a file in its folder, or a schema in `rota_database`."""
    from rota.app import App
    from rota.testing.stores import fresh_schema, temporary
    from rota.worker.app_loader import load_app

    address = str(request.config.getini(SETTING))
    app = load_app(address) if address else App()
    database = fresh_schema(rota_database) if rota_database else nullcontext(f"sqlite:///{tmp_path}/rota.db")
    with database as url, temporary(app, url, rota_clock):
        yield app
