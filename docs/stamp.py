"""Say when the screenshots are older than what they show, or with `--write` note what they were taken of.

python docs/stamp.py [--write]        (`./dev docs` says it, `./dev shots` notes it)
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What draws: the dashboard, and `rota top`.
SHOWN = ("web/src", "src/rota/top")
STAMP = "docs/images/stamp"
KINDS = (".css", ".html", ".py", ".svg", ".tcss", ".ts", ".tsx")


def checksum(root: Path) -> str:
    """Of everything that the pictures show; tests beside the sources change nothing on them."""
    files = [path for folder in SHOWN for path in (root / folder).rglob("*") if path.suffix in KINDS]
    seen = hashlib.sha256()
    for path in sorted(files):
        if ".test." not in path.name:
            seen.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return seen.hexdigest()


def is_fresh(root: Path) -> bool:
    stamp = root / STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8").strip() == checksum(root)


def main(arguments: list[str], root: Path = ROOT) -> int:
    if arguments not in ([], ["--write"]):
        print("usage: python docs/stamp.py [--write]", file=sys.stderr)
        return 2
    if arguments:
        (root / STAMP).write_text(f"{checksum(root)}\n", encoding="utf-8")
    elif not is_fresh(root):
        print("docs: the screenshots may be older than what they show: ./dev shots takes them anew", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
