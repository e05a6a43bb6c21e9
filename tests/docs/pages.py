"""The pages as the tests read them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    """Every page of ours, the README and its neighbours first."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, language: str, mark: str = "") -> list[str]:
    """The code blocks of a page in one language, or those that carry a mark."""
    found = _BLOCK.findall(path.read_text(encoding="utf-8"))
    return [text for spoken, marks, text in found if spoken == language and mark in marks]


def write_files(page: Path, folder: Path) -> None:
    """The files of the page on tests, each named in its first line, with pytest's settings."""
    for block in blocks(page, "python"):
        first, _, text = block.partition("\n")
        (folder / first.removeprefix("# ")).write_text(text)
    (setting,) = blocks(page, "toml")
    (folder / "pyproject.toml").write_text(setting)


def links(path: Path) -> list[str]:
    """Where a page points to, code blocks left out."""
    return _LINK.findall(_BLOCK.sub("", path.read_text(encoding="utf-8")))


def anchors(path: Path) -> set[str]:
    """What can stand behind `#` in a link to a page."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(path: Path, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, its header left out."""
    text = path.read_text(encoding="utf-8").split(f"\n## {heading}\n", 1)[1]
    lines = re.search(r"(^\|.*\n)+", text, re.MULTILINE)
    assert lines, f"no table under {heading}"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.group().splitlines()[2:]]


def texts() -> list[Path]:
    """Every text file that belongs to the project, as git sees it, new ones included."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    found = subprocess.run(listed, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode()
    return [ROOT / file for file in found.split("\0") if file and (ROOT / file).is_file()]
