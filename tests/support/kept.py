"""What a failed test leaves for a look: the path of its folder, and the ends of its logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

LINES = 40  # of each log


def sections(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Return sections for the report of a failure. pytest keeps the folder of a failed test."""
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if not isinstance(folder, Path) or not folder.exists():
        return
    logs = sorted(path for path in folder.rglob("*") if path.is_file() and "log" in (path.name, path.suffix[1:]))
    yield "Files kept", "\n".join([str(folder), *(f"  {path.relative_to(folder)}" for path in logs)])
    for path in logs:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if lines:
            yield f"End of {path.relative_to(folder)}, {len(lines)} lines", "\n".join(lines[-LINES:])
