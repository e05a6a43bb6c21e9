"""What a failed test leaves to look at: where its folder is, and how its logs end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

LINES = 40  # of each log


def sections(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Sections of the failure's report. pytest keeps the folder of a test that failed."""
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if not isinstance(folder, Path) or not folder.exists():
        return
    logs = sorted(path for path in folder.rglob("*") if path.is_file() and "log" in (path.name, path.suffix[1:]))
    yield "Files kept", "\n".join([str(folder), *(f"  {path.relative_to(folder)}" for path in logs)])
    for path in logs:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if lines:
            yield f"End of {path.relative_to(folder)}, {len(lines)} lines", "\n".join(lines[-LINES:])
