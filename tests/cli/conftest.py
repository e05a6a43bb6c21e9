from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api.servers import Server
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Elsewhere(Shell):
    """A folder from which only the server is reached; tests look at its database."""

    @property
    def path(self) -> Path:
        return self.folder.parent / "server" / ".rota" / "rota.db"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of a module that names STORES run on each of them: on a database, and over HTTP from elsewhere."""
    kinds = getattr(metafunc.module, "STORES", None)
    if kinds and "shell" in metafunc.fixturenames:
        metafunc.parametrize("shell", kinds, indirect=True)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Shell]:
    """A folder without a database."""
    shell = Shell(tmp_path)
    yield shell
    shell.end()


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    """A folder with an empty database; or one without any, from which a server that has one is reached."""
    if getattr(request, "param", "sqlite") == "sqlite":
        shell = Shell(tmp_path)
        shell.make()
        yield shell
        shell.end()
        return
    (tmp_path / "server").mkdir()
    (tmp_path / "elsewhere").mkdir()
    server = Server(tmp_path / "server")
    shell = Elsewhere(tmp_path / "elsewhere", ROTA_DB=server.url, ROTA_TOKEN=server.secret)
    yield shell
    shell.end()
    server.end()
