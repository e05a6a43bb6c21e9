"""Draw small mistakes in rota's sources by a seed: the same seed on the same sources draws the same ones.

First a function or statement of the package is drawn, all with the same chance, then one of the mistakes that fit it.
"""

from __future__ import annotations

import ast
import random
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.planted.data import BadData, Change
from tests.planted.sources import SQL, named_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.planted.sources import Sources, Span

# What each package that mistakes are drawn from begins with, below src/rota.
PACKAGES = {
    "core": ("core/",),
    "store": ("store/",),
    "orchestrator": ("orchestrator/",),
    "worker": ("worker/",),
    "api": ("api/",),
    "cli": ("cli/",),
    "tracking": ("tracking/",),
    "live": ("live/", "crew.py"),
    "inprocess": ("worker/inprocess/",),
    "settings": ("settings.py",),
    "app": ("app.py", "task.py", "worker/sources/", "testing/", "documents.py"),
    "top": ("top/", "mcp/"),
}
LEFT_OUT = ("store/sql/migrations/", "cli/verbs/trials.py", "core/version.py")
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
LOGGING = {"debug", "info", "warning", "error", "exception", "log", "say", "print"}
NEGATED = "condition negated"  # fits almost everywhere and is the easiest to catch, so it is drawn less often
MOST_LINES_AROUND = 3


@dataclass(frozen=True)
class Edit:
    """Replace a stretch of a file's text; `kind` names the mistake."""

    start: int
    end: int
    new: str
    kind: str


@dataclass(frozen=True)
class Mutant:
    """A drawn mistake, ready to become a planted bug."""

    seed: int
    kind: str
    path: Path
    change: Change


def draw(sources: Sources, seed: int, count: int, package: str) -> list[Mutant]:
    """Draw `count` mistakes from a package, no two in the same function or statement."""
    chance = random.Random(f"{seed} {package}")
    places = [(symbol, span) for symbol, span in _places(sources) if _is_in(sources, span, package)]
    chance.shuffle(places)
    mutants: list[Mutant] = []
    for symbol, span in places:
        if len(mutants) == count:
            break
        edits = sorted(_edits(sources, symbol, span), key=lambda edit: (edit.kind, edit.start, edit.new))
        while edits:
            kinds = sorted({edit.kind for edit in edits})
            kind = chance.choices(kinds, [1 if each == NEGATED else 3 for each in kinds])[0]
            edit = chance.choice([edit for edit in edits if edit.kind == kind])
            edits.remove(edit)
            change = _as_change(sources, symbol, span, edit)
            if change is not None:
                mutants.append(Mutant(seed, edit.kind, span.path, change))
                break
    return mutants


def as_toml(mutant: Mutant) -> str:
    """An entry to complete by hand: its name, its part, and the promise that it breaks."""
    change = mutant.change
    return "\n".join(
        [
            f"# {mutant.kind} in {mutant.path.name}",
            "[[bug]]",
            'name = ""',
            'part = ""',
            f'symbol = "{change.symbol}"',
            f"old = '''\n{change.old}'''",
            f"new = '''\n{change.new}'''",
            'breaks = ""',
            f"seed = {mutant.seed}",
            "",
        ]
    )


def _places(sources: Sources) -> Iterator[tuple[str, Span]]:
    """Python functions and methods, and SQL statements; no function that another one contains."""
    functions: dict[Path, set[str]] = {}
    for path, tree in sources.trees.items():
        named = [name for name, node in named_nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        functions[path] = {name for name in named if name.rpartition(".")[0] not in named}
    for symbol, spans in sorted(sources.symbols()):
        for span in spans:
            if symbol in functions.get(span.path, ()) or symbol.startswith(SQL):
                yield symbol, span


def _is_in(sources: Sources, span: Span, package: str) -> bool:
    try:
        inside = span.path.relative_to(sources.root / "src" / "rota").as_posix()
    except ValueError:
        return False
    return inside.startswith(PACKAGES[package]) and not inside.startswith(LEFT_OUT)


def _as_change(sources: Sources, symbol: str, span: Span, edit: Edit) -> Change | None:
    """The edit as whole lines, with as many around them as make the text unique; None when that is not enough."""
    text = sources.texts[span.path]
    for around in range(MOST_LINES_AROUND):
        start = _line_start(text, edit.start, around)
        end = _line_end(text, edit.end, around)
        if start < span.start or end > span.end:
            return None
        change = Change(symbol, text[start:end], text[start : edit.start] + edit.new + text[edit.end : end])
        try:
            sources.find(change)
            if span.path.suffix == ".py":
                ast.parse(text[: edit.start] + edit.new + text[edit.end :])
        except (BadData, SyntaxError):
            continue
        return change
    return None


def _line_start(text: str, at: int, before: int) -> int:
    for _ in range(before + 1):
        at = text.rfind("\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _line_end(text: str, at: int, after: int) -> int:
    if text[at - 1] == "\n":
        at -= 1
    for _ in range(after + 1):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


def _edits(sources: Sources, symbol: str, span: Span) -> Iterator[Edit]:
    if symbol.startswith(SQL):
        yield from _sql_edits(sources.texts[span.path], span)
        return
    for name, node in named_nodes(sources.trees[span.path]):
        if name == symbol and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            places = _Offsets(sources.texts[span.path])
            if span.start <= places.start(node) < span.end:
                yield from _python_edits(node.body, places)


class _Offsets:
    """Offsets of the nodes of a file: `ast` counts bytes of lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def start(self, node: ast.stmt | ast.expr) -> int:
        return self._at(node.lineno, node.col_offset)

    def end(self, node: ast.stmt | ast.expr) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._at(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.stmt | ast.expr) -> str:
        return self.text[self.start(node) : self.end(node)]

    def lines(self, node: ast.stmt) -> tuple[int, int]:
        """From the start of its first line to the end of its last, the line break included."""
        assert node.end_lineno is not None
        return self._starts[node.lineno - 1], self._starts[node.end_lineno]

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def _python_edits(body: Sequence[ast.stmt], places: _Offsets) -> Iterator[Edit]:
    yield from _block_edits(body, places)
    for statement in body:
        if isinstance(statement, ast.Assert | ast.Raise | ast.Import | ast.ImportFrom) or _is_for_types(statement):
            continue
        for block in _blocks(statement):
            yield from _python_edits(block, places)
        for expression in _expressions(statement):
            yield from _expression_edits(expression, places)
        test = getattr(statement, "test", None)
        if isinstance(test, ast.expr):
            yield _negated(test, places)


def _blocks(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, [])
        if isinstance(block, list) and block:
            yield block
    for each in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
        yield each.body


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, without its blocks and annotations."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    if isinstance(statement, ast.AnnAssign):
        if statement.value is not None:
            yield statement.value
        return
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem):
            yield child.context_expr


def _block_edits(body: Sequence[ast.stmt], places: _Offsets) -> Iterator[Edit]:
    for statement in body:
        if _is_guard(statement) and len(body) > 1:
            yield Edit(*places.lines(statement), "", "guard dropped")
    for first, second in pairwise(body):
        if _is_call(first) and _is_call(second):
            start, middle = places.lines(first)
            _, end = places.lines(second)
            swapped = places.text[middle:end] + places.text[start:middle]
            if places.text[start:middle] != places.text[middle:end]:
                yield Edit(start, end, swapped, "calls swapped")


def _is_guard(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.If)
        and not statement.orelse
        and len(statement.body) == 1
        and isinstance(statement.body[0], ast.Return | ast.Raise | ast.Continue)
    )


def _is_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and not _is_log(statement.value)


def _is_for_types(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"


def _is_log(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
    return name in LOGGING


def _expression_edits(node: ast.AST, places: _Offsets) -> Iterator[Edit]:
    if isinstance(node, ast.JoinedStr) or _is_log(node):
        return
    if isinstance(node, ast.IfExp):
        yield _negated(node.test, places)
    if isinstance(node, ast.comprehension):
        yield from (_negated(test, places) for test in node.ifs)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _compared(node, places)
    if isinstance(node, ast.BoolOp):
        yield from _joined(node, places)
    if isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value < 100_000:
        yield Edit(places.start(node), places.end(node), str(node.value + 1), "off by one")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        other = {"min": "max", "max": "min"}[node.func.id]
        yield Edit(places.start(node.func), places.end(node.func), other, "order swapped")
    if isinstance(node, ast.keyword) and node.arg == "reverse" and isinstance(node.value, ast.Constant):
        yield Edit(places.start(node.value), places.end(node.value), str(not node.value.value), "order swapped")
    if isinstance(node, ast.Subscript) and places.of(node.slice) in ("0", "-1"):
        other = "-1" if places.of(node.slice) == "0" else "0"
        yield Edit(places.start(node.slice), places.end(node.slice), other, "order swapped")
    for child in ast.iter_child_nodes(node):
        yield from _expression_edits(child, places)


def _negated(test: ast.expr, places: _Offsets) -> Edit:
    return Edit(places.start(test), places.end(test), f"not ({places.of(test)})", NEGATED)


def _compared(node: ast.Compare, places: _Offsets) -> Iterator[Edit]:
    old, new = COMPARISONS[type(node.ops[0])]
    start, end = places.end(node.left), places.start(node.comparators[0])
    between = places.text[start:end]
    if between.count(old) == 1:
        yield Edit(start, end, between.replace(old, new), "comparison flipped")


def _joined(node: ast.BoolOp, places: _Offsets) -> Iterator[Edit]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    text = places.text[places.start(node) : places.end(node)]
    begins = places.start(node)
    for left, right in reversed(list(pairwise(node.values))):
        start, end = places.end(left) - begins, places.start(right) - begins
        text = text[:start] + re.sub(rf"\b{old}\b", new, text[start:end], count=1) + text[end:]
    yield Edit(begins, places.end(node), text, "and/or swapped")


_STOP = re.compile(
    r"\s+(?:AND|OR|ORDER BY|GROUP BY|LIMIT|RETURNING|ON CONFLICT|UNION|FOR UPDATE|OFFSET|THEN)\b"
    r"|\s+\$(?:skip_locked|for_update)\b|;"
)


def _sql_edits(text: str, span: Span) -> Iterator[Edit]:
    for begins, line in _sql_lines(text, span):
        for match in re.finditer(r" (<=|>=|<|>) ", line):
            new = {"<=": "<", ">=": ">", "<": "<=", ">": ">="}[match[1]]
            yield Edit(begins + match.start(1), begins + match.end(1), new, "comparison flipped")
        for match in re.finditer(r" DESC\b", line):
            yield Edit(begins + match.start(), begins + match.end(), "", "order swapped")
        for match in re.finditer(r"ORDER BY [\w.]+(?! DESC)\b(?=[ ,\n)]|$)", line):
            if not line[match.end() :].startswith(" DESC"):
                yield Edit(begins + match.end(), begins + match.end(), " DESC", "order swapped")
        for match in re.finditer(r"\b(min|max)(?=\()", line):
            new = {"min": "max", "max": "min"}[match[1]]
            yield Edit(begins + match.start(), begins + match.end(), new, "order swapped")
        for match in re.finditer(r"(?<= [+-] )1\b", line):
            yield Edit(begins + match.start(), begins + match.end(), "2", "off by one")
        yield from _terms(text, begins, line, span)


def _sql_lines(text: str, span: Span) -> Iterator[tuple[int, str]]:
    at = span.start
    for line in text[span.start : span.end].splitlines(keepends=True):
        if not line.startswith("--"):
            yield at, line
        at += len(line)


def _terms(text: str, begins: int, line: str, span: Span) -> Iterator[Edit]:
    """Terms of a condition that AND joins, each to drop."""
    for match in re.finditer(r"\bAND\s+|\bWHERE\s+", line):
        start = begins + match.end()
        end = _term_end(text, start, span.end)
        if match[0].startswith("AND"):
            if "BETWEEN" not in line[: match.start()].rpartition("AND")[2]:
                yield Edit(_before(text, begins + match.start()), end, "", "term of WHERE dropped")
                continue
        elif re.match(r"\s+AND\b", text[end:]):
            after = re.match(r"\s+AND\s+", text[end:])
            assert after is not None
            yield Edit(start, end + after.end(), "", "term of WHERE dropped")


def _term_end(text: str, start: int, last: int) -> int:
    """Where a term ends: at a closing bracket that it did not open, or before the next word of the statement."""
    depth = 0
    for at in range(start, last):
        if text[at] == "(":
            depth += 1
        elif text[at] == ")":
            depth -= 1
            if depth < 0:
                return at
        elif not depth and (_STOP.match(text, at) or text.startswith("\n\n", at)):
            return at
    return len(text[:last].rstrip())


def _before(text: str, at: int) -> int:
    """Without the space before it."""
    return len(text[:at].rstrip())
