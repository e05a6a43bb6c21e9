"""The files of statements themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rota.store.engine.statements import FOLDER

FILES = sorted(Path(FOLDER).parent.rglob("*.sql"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_two_statements_of_a_file_have_one_name(path: Path) -> None:
    """The second would silently take the place of the first."""
    names = Counter(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("-- name: "))
    assert [name for name, count in names.items() if count > 1] == []
