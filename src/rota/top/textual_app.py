"""The Textual application: it owns the reader thread, the time on the store's clock, and what keys do."""

from __future__ import annotations

import asyncio
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, assert_never

from textual.app import App
from textual.binding import Binding
from textual.message import Message

from rota.core.times import SECOND
from rota.live.throughput import Throughput
from rota.top import store_calls
from rota.top.overview import Overview
from rota.top.sheets import Sheet
from rota.top.store_calls import AT_LEAST_EVERY, Away, Reader, Update, in_words
from rota.top.tables import BAD, WARN
from rota.top.widgets import Ask, Foot, Help

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar

    from textual.binding import BindingType

    from rota.core.times import Instant
    from rota.store.store import Store
    from rota.top.store_calls import Snapshot

SILENT = 4 * AT_LEAST_EVERY
RESTS = 4  # the pause after drawing, as a multiple of how long drawing took


class ReaderReport(Message):
    """Carries a report from the reader's thread to the screen's."""

    def __init__(self, report: Update | Away) -> None:
        super().__init__()
        self.report = report


class Top(App[None]):
    """The application of `rota top`: one screen of panes, and sheets and dialogs above it."""

    TITLE = "rota top"
    CSS_PATH = "top.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", show=False),
        Binding("question_mark", "help", show=False),
    ]

    def __init__(self, open_store: Callable[[], Store]) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (132, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-short"), (40, "-tall")]
        self.open_store = open_store
        self.reader = Reader(open_store, lambda report: self.post_message(ReaderReport(report)))
        self.snapshot: Snapshot | None = None
        self.throughput = Throughput()
        self._away: str | None = None
        self._updated_at = time.monotonic()
        self._rests_until = 0.0

    @property
    def now(self) -> Instant:
        """The time on the store's clock, extrapolated from the last snapshot."""
        return self.snapshot.now + round((time.monotonic() - self._updated_at) * SECOND) if self.snapshot else 0

    def trouble(self) -> str | None:
        """Return why the screen is out of date, or None if it is not."""
        silent = time.monotonic() - self._updated_at
        if self._away is not None:
            return f"the store is away, this is how it was {silent:.0f}s ago: {self._away}"
        return f"the store has not answered for {silent:.0f}s" if silent > SILENT else None

    def on_mount(self) -> None:
        if not self.is_headless:
            # Textual restores the terminal only if it exits by itself, not if a signal ends the process.
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self.exit)
            self.set_interval(1.0, self._leave_a_closed_terminal)
        self.push_screen(Overview())
        self.reader.start()
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        self.reader.end()

    def on_reader_report(self, message: ReaderReport) -> None:
        match message.report:
            case Away(reason):
                self._away = reason
                self._tick()
            case Update(snapshot, events, is_first, answer):
                self.throughput = Throughput() if is_first else self.throughput
                for event in events:
                    self.throughput.note(event)
                self.snapshot, self._away, self._updated_at = snapshot, None, time.monotonic()
                if isinstance(shown := self._shown, Sheet):
                    shown.show_answer(answer, self.now)
                self._tick()
            case other:
                assert_never(other)

    def _leave_a_closed_terminal(self) -> None:
        """Exit once the terminal is gone. SIGHUP is not sent in every case, and reading its input would never end."""
        poll = select.poll()
        poll.register(sys.__stdin__ or 0, 0)
        if any(event & select.POLLHUP for _, event in poll.poll(0)):
            self.exit()

    def _tick(self) -> None:
        """Redraw what depends on the time; less often if drawing takes long."""
        began = time.monotonic()
        if (shown := self._shown) is not None and began >= self._rests_until:
            shown.tick(self.now)
            ended = time.monotonic()
            self._rests_until = ended + RESTS * (ended - began)

    @property
    def _shown(self) -> Overview | Sheet | None:
        """The screen that shows the store, unless a dialog covers it."""
        screen = self.screen if self.is_running else None
        return screen if isinstance(screen, Overview | Sheet) else None

    def act(self, action: Callable[[Store], str]) -> None:
        """Call an action on a thread of its own, and show its answer."""
        self.run_worker(lambda: self._act(action), thread=True, exit_on_error=False)

    def _act(self, action: Callable[[Store], str]) -> None:
        try:
            with self.open_store() as store:
                text, is_bad = action(store), False
        except Exception as problem:
            text, is_bad = in_words(problem), True
        self.call_later(self.show_message, text, is_bad)
        # The next snapshot shows what the action has changed; without this it could be seconds away.
        self.reader.read_now()

    def show_message(self, text: str, bad: bool = False) -> None:
        """Show a sentence at the foot of the screen for a while."""
        for foot in self.screen.query(Foot):
            foot.show_message(text, BAD if bad else WARN)

    def cancel(self, id: int) -> None:
        """Cancel a job, after a confirmation."""

        def on_answer(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self.act(lambda store: store_calls.cancel(store, id))

        self.push_screen(Ask(f"cancel job {id}? Whoever runs it is stopped, and its outcome is refused."), on_answer)

    def action_help(self) -> None:
        self.push_screen(Help())


def run(open_store: Callable[[], Store]) -> int:
    """Run `rota top` until it is quit; return the exit code."""
    top = Top(open_store)
    top.run(mouse=False)
    return top.return_code or 0
