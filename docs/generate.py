"""Write the pages that come from the code, or with `--check` say which of them are out of date.

python docs/generate.py [--check]        (or: ./dev docs)
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from docs.pages import (  # noqa: E402
    cli,
    errors,
    events,
    http,
    openapi,
    performance,
    reliability,
    requests,
    schema,
    settings,
    states,
    typescript,
)

PAGES = {
    "images/performance.svg": performance.picture,
    "performance.md": performance.page,
    "reference/cli.md": cli.page,
    "reference/errors.md": errors.page,
    "reference/events.md": events.page,
    "reference/http.md": http.page,
    "reference/openapi.json": openapi.page,
    "reference/openapi.md": requests.page,
    "reference/schema.md": schema.page,
    "reference/settings.md": settings.page,
    "reference/states.md": states.page,
    "reliability.md": reliability.page,
    "../web/src/types.ts": typescript.page,
}


def outdated() -> list[str]:
    """Return the names of the pages that differ from what the code says."""
    return [name for name, page in PAGES.items() if _read(DOCS / name) != page()]


def write() -> list[str]:
    """Bring every page up to date. Returns the names of those that changed."""
    changed = outdated()
    for name in changed:
        (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
    return changed


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python docs/generate.py [--check]", file=sys.stderr)
        return 2
    changed = outdated() if arguments else write()
    for name in changed:
        print(f"docs/{name} is out of date: run ./dev docs" if arguments else f"wrote docs/{name}")
    return 1 if arguments and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
