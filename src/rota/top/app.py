"""The program: it owns the thread that looks, the clock of the store as of now, and what keys do."""

from __future__ import annotations

import asyncio
import select
import signal
import sys
import time
from typing import TYPE_CHECKING

from textual.app import App
from textual.binding import Binding
from textual.message import Message

from rota.core.times import SECOND
from rota.live.throughput import Pace
from rota.top import acts
from rota.top.overview import Overview
from rota.top.pane import Foot
from rota.top.reader import AT_LEAST_EVERY, Away, Reader, Seen, in_words
from rota.top.rows import BAD, WARN
from rota.top.screens import Ask, Help
from rota.top.sheets import Sheet

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar

    from textual.binding import BindingType

    from rota.core.times import Instant
    from rota.store.store import Store
    from rota.top.look import Look

SILENT = 4 * AT_LEAST_EVERY
RESTS = 4  # times as long as drawing took


class Told(Message):
    """What the reader has to tell."""

    def __init__(self, what: Seen | Away) -> None:
        super().__init__()
        self.what = what


class Top(App[None]):
    """`rota top`."""

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
        self.reader = Reader(open_store, lambda what: self.post_message(Told(what)))
        self.look: Look | None = None
        self.pace = Pace()
        self._away: str | None = None
        self._told_at = time.monotonic()
        self._rests_until = 0.0

    @property
    def now(self) -> Instant:
        """The time on the store's clock, as far as the last look tells."""
        return self.look.now + round((time.monotonic() - self._told_at) * SECOND) if self.look else 0

    def trouble(self) -> str | None:
        """What the screen must not hide: that it shows the past."""
        silent = time.monotonic() - self._told_at
        if self._away is not None:
            return f"the store is away, this is how it was {silent:.0f}s ago: {self._away}"
        return f"the store has not answered for {silent:.0f}s" if silent > SILENT else None

    def on_mount(self) -> None:
        if not self.is_headless:  # however it is ended, the terminal is left as it was
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self.exit)
            self.set_interval(1.0, self._leave_a_closed_terminal)
        self.push_screen(Overview())
        self.reader.start()
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        self.reader.end()

    def on_told(self, message: Told) -> None:
        match message.what:
            case Away(reason):
                self._away = reason
                self._tick()
            case Seen(look, events, is_first, answer):
                self.pace = Pace() if is_first else self.pace
                for event in events:
                    self.pace.note(event.at, event.facts)
                self.look, self._away, self._told_at = look, None, time.monotonic()
                if isinstance(shown := self._shown, Sheet):
                    shown.told(answer, self.now)
                self._tick()

    def _leave_a_closed_terminal(self) -> None:
        """Exit once the terminal is gone. Not everyone gets SIGHUP then, and its input would be read without end."""
        poll = select.poll()
        poll.register(sys.__stdin__ or 0, 0)
        if any(event & select.POLLHUP for _, event in poll.poll(0)):
            self.exit()

    def _tick(self) -> None:
        """Show the time that has passed; less often where there is so much to show that it takes long."""
        began = time.monotonic()
        if (shown := self._shown) is not None and began >= self._rests_until:
            shown.tick(self.now)
            ended = time.monotonic()
            self._rests_until = ended + RESTS * (ended - began)

    @property
    def _shown(self) -> Overview | Sheet | None:
        """The screen that tells of the store, unless something is open over it."""
        screen = self.screen if self.is_running else None
        return screen if isinstance(screen, Overview | Sheet) else None

    def act(self, what: Callable[[Store], str]) -> None:
        """Do something to the store on a thread of its own, and say what came of it."""
        self.run_worker(lambda: self._act(what), thread=True, exit_on_error=False)

    def _act(self, what: Callable[[Store], str]) -> None:
        try:
            with self.open_store() as store:
                text, is_bad = what(store), False
        except Exception as problem:
            text, is_bad = in_words(problem), True
        self.call_later(self.say, text, is_bad)
        self.reader.look_now()

    def say(self, text: str, bad: bool = False) -> None:
        """One sentence at the foot of the screen, for a while."""
        for foot in self.screen.query(Foot):
            foot.say(text, BAD if bad else WARN)

    def cancel(self, id: int) -> None:
        """Call a job off, once a person says yes."""

        def answered(yes: bool | None) -> None:
            if yes:
                self.act(lambda store: acts.cancel(store, id))

        self.push_screen(Ask(f"cancel job {id}? Whoever runs it is stopped, and its outcome is refused."), answered)

    def action_help(self) -> None:
        self.push_screen(Help())


def run(open_store: Callable[[], Store]) -> int:
    """Show it until somebody leaves; the exit code."""
    top = Top(open_store)
    top.run(mouse=False)
    return top.return_code or 0
