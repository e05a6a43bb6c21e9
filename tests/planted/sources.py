"""Find source text by symbol, so that a planted bug survives when code moves to another file or line."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.planted.data import BadData

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.planted.data import Bug, Change

SQL, TYPESCRIPT = "sql:", "ts:"
_STATEMENT = re.compile(r"(?m)^-- name: (.+)$")
_DECLARED = re.compile(
    r"(?m)^(?:export )?(?:default )?(?:async )?(?:function|const|let|class|type|interface|import)\b *(\w*)"
)


@dataclass(frozen=True)
class Span:
    """A stretch of a file, as offsets into its text."""

    path: Path
    start: int
    end: int


class Sources:
    """The sources of a checkout: Python and SQL in `src/rota`, TypeScript in `web/src`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.texts: dict[Path, str] = {}
        self.trees: dict[Path, ast.Module] = {}
        self._spans: dict[str, list[Span]] = {}
        package = root / "src" / "rota"
        for path in sorted(package.rglob("*.py")):
            self._read_python(path)
        for path in sorted(package.rglob("*.sql")):
            self._read_sql(path)
        for path in sorted((root / "web" / "src").rglob("*.ts*")):
            self._read_typescript(path)

    def spans(self, symbol: str) -> list[Span]:
        """Every place with this name; several modules may have one each."""
        return self._spans.get(symbol, [])

    def symbols(self) -> Iterator[tuple[str, list[Span]]]:
        yield from self._spans.items()

    def find(self, change: Change) -> Span:
        """The single place of `change.old`.

        Raises:
            BadData: The symbol does not exist, or the text does not occur in it exactly once.
        """
        spans = self.spans(change.symbol)
        if not spans:
            raise BadData(f"there is no {change.symbol}")
        if change.old == change.new:
            raise BadData(f"the change to {change.symbol} changes nothing")
        found = [
            Span(span.path, span.start + at, span.start + at + len(change.old))
            for span in spans
            for at in _occurrences(self.texts[span.path][span.start : span.end], change.old)
        ]
        if len(found) != 1:
            raise BadData(f"{change.symbol} has the text to change {len(found)} times, not once: {change.old!r}")
        return found[0]

    def changed(self, bug: Bug) -> dict[Path, str]:
        """The files that the bug changes, with their new text.

        Raises:
            BadData: It does not apply, or the changed Python does not compile.
        """
        edits = [(self.find(change), change.new) for change in bug.changes]
        texts: dict[Path, str] = {}
        for span, new in sorted(edits, key=lambda edit: edit[0].start, reverse=True):
            text = texts.get(span.path, self.texts[span.path])
            texts[span.path] = text[: span.start] + new + text[span.end :]
        for path, text in texts.items():
            if path.suffix == ".py":
                _check_compiles(path, text)
        return texts

    def _read_python(self, path: Path) -> None:
        text = self.texts[path] = path.read_text(encoding="utf-8")
        tree = self.trees[path] = ast.parse(text)
        lines = _line_starts(text)
        for name, node in named_nodes(tree):
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(each.lineno for each in decorators)])
            assert node.end_lineno is not None
            self._add(name, Span(path, lines[first - 1], lines[node.end_lineno]))

    def _read_sql(self, path: Path) -> None:
        """`sql:NOUN.VERB`, with `sql:postgres:` before what PostgreSQL has for itself; a migration is one symbol."""
        text = self.texts[path] = path.read_text(encoding="utf-8")
        kind = SQL + ("postgres:" if path.parent.name == "postgres" else "")
        heads = list(_STATEMENT.finditer(text))
        if not heads:
            self._add(f"{kind}{path.stem}", Span(path, 0, len(text)))
        for head, following in zip(heads, [*heads[1:], None], strict=False):
            name = head[1].strip()
            noun = "" if path.stem == "overrides" else f"{path.stem}."
            end = following.start() if following else len(text)
            self._add(f"{kind}{noun}{name}", Span(path, head.end(), end))

    def _read_typescript(self, path: Path) -> None:
        if ".test." in path.name:
            return
        text = self.texts[path] = path.read_text(encoding="utf-8")
        heads = list(_DECLARED.finditer(text))
        for head, following in zip(heads, [*heads[1:], None], strict=False):
            if head[1]:
                self._add(TYPESCRIPT + head[1], Span(path, head.start(), following.start() if following else len(text)))

    def _add(self, symbol: str, span: Span) -> None:
        self._spans.setdefault(symbol, []).append(span)


def named_nodes(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Functions, methods, classes and assigned names with their qualified names, nested ones included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield inside + node.name, node
            yield from named_nodes(node, f"{inside}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from ((inside + each.id, node) for each in targets if isinstance(each, ast.Name))
        elif isinstance(node, ast.stmt):
            yield from named_nodes(node, inside)


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.split("\n"):
        starts.append(min(len(text), starts[-1] + len(line) + 1))
    return starts


def _occurrences(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _check_compiles(path: Path, text: str) -> None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise BadData(f"{path.name} no longer compiles: {error}") from error
