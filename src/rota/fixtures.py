"""For pytest, which finds it by itself: an app with a store and a clock of the test's own.

`rota_app = shop:app` in pytest's settings says which; without it the app is a new one, for the test to fill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.app import App
    from rota.testing.clock import Clock

SETTING = "rota_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(SETTING, "the app that the fixture of this name gives, such as shop:app")


@pytest.fixture
def rota_clock() -> Clock:
    """The clock of `rota_app`: it stands still until `rota_clock.forward("1h")`."""
    from rota.testing.clock import Clock

    return Clock()


@pytest.fixture
def rota_app(request: pytest.FixtureRequest, rota_clock: Clock, tmp_path: Path) -> Iterator[App]:
    """The app, with an empty store in the test's own folder."""
    from rota.app import App
    from rota.testing.temporary import temporary
    from rota.worker.load import load_app

    named = str(request.config.getini(SETTING))
    app = load_app(named) if named else App()
    with temporary(app, f"sqlite:///{tmp_path}/rota.db", rota_clock):
        yield app
