"""What opens over the panes and is soon closed again: a question, a line to fill in, and the help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from rota.core.ids import printable
from rota.top.pane import Lines
from rota.top.rows import BUSY, DIM, PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import Key

    from rota.top.pages import Line

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
    """All keys; any of them closes it."""

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
