"""Screens of text about one thing: a job, the death of a worker, and the output of a run."""

from __future__ import annotations

import codecs
import time
from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.screen import Screen
from textual.worker import get_current_worker

from rota.core.errors import NotFound, RotaError
from rota.core.ids import printable
from rota.store.jobs.output import LARGEST_TEXT, Output, missing, path_of, refuse_elsewhere
from rota.top import store_calls
from rota.top.pages import death_lines, job_lines, wrapped
from rota.top.store_calls import read_page
from rota.top.tables import BAD, BUSY, DIM, PLAIN
from rota.top.widgets import Foot, Lines, Text

if TYPE_CHECKING:
    from typing import Any, ClassVar

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from rota.core.times import Instant
    from rota.store.remote.client import Link
    from rota.store.store import Store
    from rota.store.workers.registration import Certificate
    from rota.top.pages import Line
    from rota.top.store_calls import Page
    from rota.top.textual_app import Top

TRANSCRIPT, STDERR = "transcript", "stderr"
READ_EVERY, RETRY_AFTER = 0.3, 1.0


class Tail:
    """The last part of one output stream of a job's newest run. It starts again with every new run."""

    def __init__(self, job: int, stream: str) -> None:
        self.stream = stream
        self._job = job
        self._start_over("")

    def _start_over(self, run: str) -> None:
        self.run = run
        self._offset: int | None = None
        self._text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, store: Store) -> tuple[bool, str]:
        """Read what was written since the last call.

        Returns:
            Whether the run may write more, and a text about what prevents reading, if anything does.
        """
        if store.link is not None:
            return self._ask(store.link)
        captured = store.claims.captured(self._job)
        if captured.run_id != self.run:
            self._start_over(captured.run_id)
        try:
            path = path_of(captured, self.stream)
            with Output(path, captured.is_own) as output:
                if output.size is None:
                    # The run was on another host: only its API has the files.
                    refuse_elsewhere(store, self._job, captured)
                    raise missing(captured, self.stream, path)
                start = max(0, output.size - LARGEST_TEXT) if self._offset is None else self._offset
                self._offset = output.copy(lambda data: self._take(self._decoder.decode(data)), start)
        except RotaError as problem:
            return captured.is_live, str(problem)
        return captured.is_live, ""

    def _ask(self, link: Link) -> tuple[bool, str]:
        answer = link.get(f"/jobs/{self._job}/output", stream=self.stream, offset=self._offset, limit=LARGEST_TEXT)
        if answer["run_id"] != self.run:
            is_another = self._offset is not None
            self._start_over(answer["run_id"])
            if is_another:
                return self._ask(link)
        self._offset = answer["next"]
        self._take(answer["text"])
        return answer["is_live"], ""

    def _take(self, text: str) -> None:
        self._text = (self._text + text)[-LARGEST_TEXT:]

    def lines(self) -> list[str]:
        """Return what the run wrote, without characters that could control a terminal."""
        text = self._text.replace("\r\n", "\n").removesuffix("\n")
        return [printable(line) for line in text.split("\n")] if text else []


class Sheet(Screen[None]):
    """Lines of text about one thing, under a title, which escape closes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace,left", "back", show=False)]
    KEYS = " esc back  ↑↓ scroll  ? help  q quit"
    app: Top

    def __init__(self, title: str, follows: bool = False) -> None:
        super().__init__()
        self._title = title
        self._follows = follows

    def compose(self) -> ComposeResult:
        yield Text("head")
        yield Lines("lines", self._follows)
        yield Foot(self.KEYS)

    def on_mount(self) -> None:
        self.entitle()

    def entitle(self, more: str = "", tone: str = DIM) -> None:
        if self.children:
            self.query_one("#head", Text).show(((f" {printable(self._title)}  ", BUSY), (printable(more), tone)))

    def write(self, lines: list[Line]) -> None:
        if self.children:
            self.query_one(Lines).show(lines)

    def action_back(self) -> None:
        self.dismiss()

    def tick(self, now: Instant) -> None:
        """Redraw what depends on the time."""

    def show_answer(self, answer: Any, now: Instant) -> None:
        """Show the answer to what this screen asked the reader."""


class JobSheet(Sheet):
    """One job, kept up to date while the sheet is open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "cancel", show=False),
        Binding("t", "retry", show=False),
        Binding("l", "output", show=False),
    ]
    KEYS = " esc back  l logs  c cancel  t try again  ↑↓ scroll  ? help  q quit"

    def __init__(self, id: int) -> None:
        super().__init__(f"Job {id}")
        self._job = id
        self._page: Page | None = None

    def on_screen_resume(self) -> None:
        self.app.reader.ask(self._read)

    def on_screen_suspend(self) -> None:
        self.app.reader.ask(None)

    def on_resize(self) -> None:
        self.tick(self.app.now)

    def _read(self, store: Store) -> Page | str:
        try:
            return read_page(store, self._job)
        except RotaError as problem:
            return str(problem)

    def show_answer(self, answer: Any, now: Instant) -> None:
        if isinstance(answer, str):
            self.write([((printable(answer), BAD),)])
        elif answer is not None:
            self._page = answer
            self.entitle(self._page.job.title, PLAIN)
            self.tick(now)

    def tick(self, now: Instant) -> None:
        if self._page is not None:
            self.write(job_lines(self._page, now, self.size.width - 2))

    def action_cancel(self) -> None:
        self.app.cancel(self._job)

    def action_retry(self) -> None:
        self.app.act(lambda store: store_calls.retry(store, self._job))

    def action_output(self) -> None:
        self.app.push_screen(OutputSheet(self._job))


class DeathSheet(Sheet):
    """How a worker died; enter opens the job that it was running."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", show=False)]
    KEYS = " esc back  enter job in hand  ↑↓ scroll  ? help  q quit"

    def __init__(self, worker: str, death: Certificate) -> None:
        super().__init__(f"Death of {worker}")
        self._death = death

    def on_resize(self) -> None:
        self.tick(self.app.now)

    def tick(self, now: Instant) -> None:
        self.write(death_lines(self._death, now, self.size.width - 2))

    def action_open(self) -> None:
        if self._death.job is not None:
            self.app.push_screen(JobSheet(self._death.job))


class OutputSheet(Sheet):
    """The output of a job's newest run, as it is written; `e` switches between its two streams."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("e", "switch", show=False)]
    KEYS = " esc back  e stderr or transcript  ↑↓ scroll  G end  ? help  q quit"

    def __init__(self, id: int) -> None:
        super().__init__(f"Output of job {id}", follows=True)
        self._job = id
        self._stream = TRANSCRIPT

    def on_mount(self) -> None:
        super().on_mount()
        self._follow()

    def action_switch(self) -> None:
        self._stream = STDERR if self._stream == TRANSCRIPT else TRANSCRIPT
        self._follow()

    def _follow(self) -> None:
        self.write([])
        self.entitle(self._stream)
        self.run_worker(lambda: self._read(self._stream), thread=True, exclusive=True, exit_on_error=False)

    def _read(self, stream: str) -> None:
        """Follow the output on a thread, until the screen is closed or the run is over."""
        worker, tail = get_current_worker(), Tail(self._job, stream)
        is_live = True
        while is_live and not worker.is_cancelled:
            try:
                with self.app.open_store() as store:
                    while is_live and not worker.is_cancelled:
                        is_live, problem = tail.read(store)
                        self._put(tail, "live" if is_live else "over", problem)
                        time.sleep(READ_EVERY)
            except NotFound as trouble:
                # The job has not run yet, or its files are gone.
                self._put(tail, "nothing yet", str(trouble))
                time.sleep(RETRY_AFTER)
            except (RotaError, OSError) as trouble:
                self._put(tail, "away", str(trouble))
                time.sleep(RETRY_AFTER)

    def _put(self, tail: Tail, state: str, problem: str) -> None:
        """Pass what was read, and a problem if there is one, from the thread to the screen."""
        about = f"{tail.stream} of {tail.run}: {state}" if tail.run else f"{tail.stream}: {state}"
        self.app.call_later(self._show, [((line, PLAIN),) for line in tail.lines()], about, problem)

    def _show(self, lines: list[Line], about: str, problem: str) -> None:
        self.entitle(about)
        self.write([*lines, *wrapped(problem, self.size.width - 2, BAD)] if problem else lines)
