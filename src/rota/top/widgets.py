"""The widgets: a table with a cursor that stays on its row, lines that scroll, and the dialogs that cover a screen."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.containers import Horizontal
from textual.geometry import Region
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from rota.core.ids import printable
from rota.top.tables import BAD, BUSY, DIM, GAP, GOOD, PLAIN, WARN, widths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import ClassVar

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import Key
    from textual.geometry import Size
    from textual.timer import Timer

    from rota.top.pages import Line
    from rota.top.tables import Cell, Column, Row

# The sixteen colours of the terminal itself: nothing here needs more, and none is the only sign of anything.
STYLES = {
    PLAIN: Style(),
    DIM: Style(dim=True),
    GOOD: Style(color="green"),
    BUSY: Style(color="cyan"),
    WARN: Style(color="yellow"),
    BAD: Style(color="red", bold=True),
}
BOLD, REVERSE = Style(bold=True), Style(reverse=True)
FOCUSED = Style(color="cyan", bold=True)
HEADS = 2
MESSAGE_LINES = 4
MESSAGE_SECONDS = 6.0
KEYS = {
    "Move": {
        "tab  1 2 3 4  a": "to the next pane; queues, slots, jobs, deaths; attention",
        "↑↓ kj  g G": "in a pane, also by page; to its first or last line",
        "enter": "open: a job, a certificate; of a queue, all of its own",
        "escape": "back; end the filter",
    },
    "Look": {
        "/": "filter all panes by a text",
        "v": "list other jobs: in hand, failed, newest",
        "l": "follow what a job writes; there e is for stderr and back",
        "w": "why a job or a slot is as it is",
    },
    "Act on the chosen line": {
        "p  r": "pause or resume its queue",
        "s": "scale its queue",
        "x": "reset its slot",
        "c": "cancel its job; asks once",
        "t": "try its job again, once that is over",
    },
}
_WIDEST = 17


def fitted(text: str, width: int, right: bool = False) -> str:
    """Pad a text to a width, or cut it and end it with `…`."""
    need = cell_len(text)
    if need > width:
        return set_cell_size(text, max(0, width - 1)) + "…" if width else ""
    return " " * (width - need) + text if right else text + " " * (width - need)


class Moving(Widget, can_focus=True):
    """The keys that scroll a widget of which `page` lines fit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "leap(-1)", show=False),
        Binding("pagedown,ctrl+f,space", "leap(1)", show=False),
        Binding("home,g", "move(-1000000)", show=False),
        Binding("end,G", "move(1000000)", show=False),
    ]

    @property
    def page(self) -> int:
        return max(1, self.size.height)

    def action_leap(self, pages: int) -> None:
        self.action_move(pages * max(1, self.page - 1))

    def action_move(self, by: int) -> None:
        raise NotImplementedError


class Pane(Moving):
    """A table under a title. The cursor stays on its row while rows come and go around it."""

    def __init__(self, title: str, columns: Sequence[Column], empty: str, id: str) -> None:
        super().__init__(id=id)
        self.title = title
        self.note = ""
        self._columns = columns
        self._empty = empty
        self._rows: list[Row] = []
        self._needed = _needed(columns, [])
        self._place = 0
        self._top = 0
        self._has_heads = any(column.head for column in columns)

    @property
    def selected(self) -> Row | None:
        return self._rows[self._place] if self._rows else None

    @property
    def rows(self) -> list[Row]:
        return self._rows

    @property
    def page(self) -> int:
        return max(1, self.size.height - self._heads)

    @property
    def _heads(self) -> int:
        return HEADS if self._has_heads else 1

    def show(self, rows: list[Row], note: str = "", columns: Sequence[Column] | None = None) -> None:
        """Show rows; redraw only what has changed."""
        if rows == self._rows and note == self.note:
            return
        self._columns = columns or self._columns
        before, was_note, was_at, was_needed = self._rows, self.note, (self._place, self._top), self._needed
        key = self.selected.key if self.selected else None
        self._rows, self.note, self._needed = rows, note, _needed(self._columns, rows)
        self._place = next((n for n, row in enumerate(rows) if row.key == key), min(self._place, len(rows) - 1))
        self._keep_in_sight()
        if len(rows) != len(before):
            self.refresh(layout=self.styles.is_auto_height)
        elif note != was_note or (self._place, self._top) != was_at or self._needed != was_needed:
            self.refresh()
        else:
            self._refresh_changed(before)

    def _refresh_changed(self, before: list[Row]) -> None:
        """Redraw only the lines that differ: between two snapshots most of the screen does not change."""
        for n, row in enumerate(self._rows[self._top : self._top + self.page]):
            if row != before[self._top + n]:
                self.refresh(Region(0, self._heads + n, self.size.width, 1))

    def action_move(self, by: int) -> None:
        self._place = max(0, min(len(self._rows) - 1, self._place + by))
        self._keep_in_sight()
        self.refresh()

    def _keep_in_sight(self) -> None:
        self._place = max(0, self._place)
        self._top = max(0, min(self._top, len(self._rows) - self.page, self._place))
        self._top = max(self._top, self._place - self.page + 1)

    def on_resize(self) -> None:
        self._keep_in_sight()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._heads + max(1, len(self._rows))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return self._title_line(width)
        if not self._rows:
            return _strip([(f" {self._empty}" if y == 1 else "", STYLES[DIM])], width)
        shown = self._widths(width)
        if y < self._heads:
            return _strip(
                [(_line([column.head for column in self._columns], self._columns, shown), STYLES[DIM])], width
            )
        at = self._top + y - self._heads
        if at >= len(self._rows):
            return _strip([], width)
        return self._row_line(self._rows[at], shown, width, at == self._place and self.has_focus)

    def _title_line(self, width: int) -> Strip:
        below = len(self._rows) - self._top - self.page
        hidden = f" {self._top + 1}–{self._top + self.page} of {len(self._rows)} " if self._top or below > 0 else ""
        title, note = f" {self.title} ", f"{self.note} " if self.note else ""
        style = FOCUSED if self.has_focus else BOLD
        left = width - cell_len(title) - cell_len(note) - cell_len(hidden) - 1
        return _strip(
            [("─", STYLES[DIM]), (title, style), (note, STYLES[DIM]), ("─" * left, STYLES[DIM]), (hidden, STYLES[DIM])],
            width,
        )

    def _widths(self, width: int) -> list[int]:
        return widths(self._columns, self._needed, width - 2)

    def _row_line(self, row: Row, shown: list[int], width: int, is_selected: bool) -> Strip:
        styles = dict.fromkeys(STYLES, REVERSE) if is_selected else STYLES
        pieces: list[tuple[str, Style]] = [("▸" if is_selected else " ", styles[PLAIN])]
        for (text, tone), column, place in zip(row.cells, self._columns, shown, strict=True):
            if place:
                gap = " " * GAP if len(pieces) > 1 else ""
                pieces += [(gap, styles[PLAIN]), (fitted(text, place, column.right), styles[tone])]
        pieces.append((" " * width, styles[PLAIN]))
        return _strip(pieces, width)


class Text(Widget):
    """Lines of cells that do not scroll."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: list[tuple[Cell, ...]] = []

    def show(self, *lines: tuple[Cell, ...]) -> None:
        new = list(lines)
        if new != self._lines:
            is_resized = len(new) != len(self._lines)
            self._lines = new
            self.refresh(layout=is_resized)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else ()
        return _strip([(text, STYLES[tone]) for text, tone in line], self.size.width)


class Foot(Text):
    """The last lines of a screen: its keys, or for a few seconds a message."""

    def __init__(self, keys: str) -> None:
        super().__init__("foot")
        self._keys = keys
        self._until: Timer | None = None

    def on_mount(self) -> None:
        self.rest()

    def rest(self) -> None:
        self.show(((self._keys, DIM),))

    def show_message(self, text: str, tone: str) -> None:
        folded = textwrap.wrap(printable(text), max(20, self.size.width - 2))
        self.show(*(((f" {line}", tone),) for line in folded[:MESSAGE_LINES]))
        if self._until is not None:
            self._until.stop()
        self._until = self.set_timer(MESSAGE_SECONDS, self.rest)


class Lines(Moving):
    """Lines of cells that scroll; with `follows` the view stays at the end as lines are added."""

    def __init__(self, id: str, follows: bool = False) -> None:
        super().__init__(id=id)
        self._lines: list[tuple[Cell, ...]] = []
        self._top = 0
        self._follows = follows

    def show(self, lines: list[tuple[Cell, ...]]) -> None:
        if lines != self._lines:
            was_at_end = self._top >= len(self._lines) - self.page
            self._lines = lines
            if self._follows and was_at_end:
                self._top = len(lines)
            self.action_move(0)

    def action_move(self, by: int) -> None:
        self._top = max(0, min(len(self._lines) - self.page, self._top + by))
        self.refresh()

    def on_resize(self) -> None:
        self.action_move(0)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        at = self._top + y
        if at >= len(self._lines):
            return _strip([], self.size.width)
        return _strip([(text, STYLES[tone]) for text, tone in self._lines[at]], self.size.width)


def _needed(columns: Sequence[Column], rows: list[Row]) -> list[int]:
    """Return the width of the widest cell of each column that can grow."""
    return [
        column.least if column.most <= column.least else max((cell_len(row.cells[n][0]) for row in rows), default=0)
        for n, column in enumerate(columns)
    ]


def _line(texts: Sequence[str], columns: Sequence[Column], shown: Sequence[int]) -> str:
    cells = [
        fitted(text, place, column.right) for text, column, place in zip(texts, columns, shown, strict=True) if place
    ]
    return " " + (" " * GAP).join(cells)


def _strip(pieces: Sequence[tuple[str, Style]], width: int) -> Strip:
    return Strip([Segment(text, style) for text, style in pieces if text]).adjust_cell_length(width, STYLES[PLAIN])


class Ask(ModalScreen[bool]):
    """One question at the foot of the screen: y is yes, every other key is no."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Static(f" {printable(self._question)} y/n ", markup=False, id="question")

    def on_key(self, event: Key) -> None:
        event.stop()
        self.dismiss(event.key in ("y", "Y", "upper_y"))


class Prompt(ModalScreen[str | None]):
    """One line to fill in at the foot of the screen; escape leaves it. `callback` gets every change."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, label: str, value: str = "", callback: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self._label = label
        self._value = value
        self._on_text = callback

    def compose(self) -> ComposeResult:
        with Horizontal(id="prompt"):
            yield Static(f" {printable(self._label)} ", markup=False)
            yield Input(self._value, compact=True, select_on_focus=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._on_text:
            self._on_text(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class Help(ModalScreen[None]):
    """All keys; any key closes it."""

    def compose(self) -> ComposeResult:
        yield Lines("help")

    def on_mount(self) -> None:
        lines: list[Line] = []
        for title, keys in KEYS.items():
            lines.append(((f" {title}", BUSY),))
            lines += [((f"  {key:<{_WIDEST}}", PLAIN), (does, DIM)) for key, does in keys.items()]
            lines.append(())
        self.query_one(Lines).show([*lines, ((f"  {'q':<{_WIDEST}}", PLAIN), ("leave", DIM))])

    def on_key(self, event: Key) -> None:
        event.stop()
        self.dismiss()
