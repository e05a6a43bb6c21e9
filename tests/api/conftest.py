"""A server for each test, or one for all tests of a module that leave nothing that another would mind."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.api.servers import Server
from tests.support.stores import STORES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On both stores, what a module's ON_BOTH names; on a file, which starts faster, the rest."""
    if "server" in metafunc.fixturenames and metafunc.function.__name__ in getattr(metafunc.module, "ON_BOTH", ()):
        metafunc.parametrize("server", STORES, indirect=True)


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Over a file, unless the test is for both stores."""
    server = Server(tmp_path, kind=getattr(request, "param", "sqlite"))
    yield server
    server.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("shared"))
    yield server
    server.end()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The paths of a certificate of localhost and of its key."""
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return cert, key
