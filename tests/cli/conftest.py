from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Shell]:
    """A folder without a database."""
    shell = Shell(tmp_path)
    yield shell
    shell.end()


@pytest.fixture
def shell(bare: Shell) -> Shell:
    """A folder with an empty database."""
    bare.say("init")
    return bare
