"""The first screen: what needs attention, queues, slots, jobs and deaths, with a chart of the last minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.containers import Container, Vertical
from textual.screen import Screen

from rota.top import store_calls, tables
from rota.top.pages import head_line, throughput_lines
from rota.top.sheets import DeathSheet, JobSheet, OutputSheet
from rota.top.store_calls import IN_HAND, SELECTIONS
from rota.top.widgets import Foot, Pane, Prompt, Text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import ClassVar

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from rota.core.times import Instant
    from rota.top.store_calls import Snapshot
    from rota.top.tables import Row
    from rota.top.textual_app import Top

ATTENTION, QUEUES, SLOTS, JOBS, DEATHS = "attention", "queues", "slots", "jobs", "deaths"
PANES = (ATTENTION, QUEUES, SLOTS, JOBS, DEATHS)
LOWER = (SLOTS, JOBS, DEATHS)
HIGH = 32  # lines of a screen, from which on the charts are three lines high
KEYS = " ? help  ⏎ open  l logs  / filter  p pause  r resume  s scale  x reset  c cancel"


class Overview(Screen[None]):
    """The panes. Where not all fit, the one below the queues is the one chosen last."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "next(1)", show=False),
        Binding("shift+tab", "next(-1)", show=False),
        Binding("a", f"go('{ATTENTION}')", show=False),
        *(Binding(str(n), f"go('{name}')", show=False) for n, name in enumerate(PANES) if n),
        Binding("enter", "open", show=False),
        Binding("escape", "clear", show=False),
        Binding("slash", "filter", show=False),
        Binding("v", "select", show=False),
        Binding("l", "output", show=False),
        Binding("w", "why", show=False),
        Binding("p", "pause", show=False),
        Binding("r", "resume", show=False),
        Binding("s", "scale", show=False),
        Binding("x", "reset", show=False),
        Binding("c", "cancel", show=False),
        Binding("t", "retry", show=False),
    ]
    AUTO_FOCUS = f"#{QUEUES}"
    app: Top

    def __init__(self) -> None:
        super().__init__()
        self._filter = ""
        self._focused_pane = QUEUES

    def compose(self) -> ComposeResult:
        yield Text("head")
        yield Text("pace")
        yield Pane("Needs attention", tables.ATTENTION, "", ATTENTION)
        yield Pane("1 Queues", tables.QUEUES, "no queues; one comes to be with its first job: rota add 'Title'", QUEUES)
        with Container(id="lower"):
            yield Pane("2 Slots", tables.SLOTS, "no slots; a crew begins with: rota orchestrator start --app …", SLOTS)
            with Vertical(id="right"):
                yield Pane("3 Jobs", tables.HELD, "none", JOBS)
                yield Pane("4 Deaths", tables.DEATHS, "no worker has died", DEATHS)
        yield Foot(KEYS)

    def on_mount(self) -> None:
        self._turn_to(SLOTS)

    def on_resize(self) -> None:
        self.call_after_refresh(self._tick)

    def tick(self, now: Instant) -> None:
        """Draw the state at this instant."""
        # While the screen is being opened or closed, not all panes are there.
        if len(self.query(Pane)) < len(PANES):
            return
        width, snapshot, throughput = self.size.width, self.app.snapshot, self.app.throughput
        filtered = f"filter: {self._filter}" if self._filter else ""
        self.query_one("#head", Text).show(head_line(snapshot, self.app.trouble(), filtered, width))
        if snapshot is None:
            return
        self.query_one("#pace", Text).show(
            *throughput_lines(throughput, now, width, 3 if self.size.height >= HIGH else 1)
        )
        self._show(ATTENTION, tables.attention_rows(snapshot, now))
        self._show(QUEUES, tables.queue_rows(snapshot, throughput, now))
        self._show(SLOTS, tables.slot_rows(snapshot, now))
        self._show_jobs(snapshot, now)
        self._show(DEATHS, tables.death_rows(snapshot, now))
        self._pane(ATTENTION).display = bool(self._pane(ATTENTION).rows)
        if self._focused_pane == ATTENTION and not self._pane(ATTENTION).display:
            self.action_go(QUEUES)

    def _tick(self) -> None:
        self.tick(self.app.now)

    def _show_jobs(self, snapshot: Snapshot, now: Instant) -> None:
        pane, is_held = self._pane(JOBS), snapshot.selection == IN_HAND
        job_rows = tables.held_rows(snapshot, now) if is_held else tables.listed_rows(snapshot, now)
        if pane.is_on_screen or self._focused_pane == JOBS:
            note = f"{snapshot.selection}, v for others"
            pane.show(tables.matching(job_rows, self._filter), note, tables.HELD if is_held else tables.LISTED)

    def _show(self, name: str, all_rows: Iterable[Row]) -> None:
        """Show rows if the pane is visible; the attention pane is visible if it has any."""
        pane = self._pane(name)
        if pane.is_on_screen or name in (ATTENTION, self._focused_pane):
            pane.show(tables.matching(all_rows, self._filter))

    def _pane(self, name: str) -> Pane:
        return self.query_one(f"#{name}", Pane)

    @property
    def _chosen(self) -> Row | None:
        """The row that keys act on. A pane gets the focus only after it is shown, and keys may come before."""
        return self._pane(self._focused_pane).selected

    def _turn_to(self, name: str) -> None:
        """Make this the pane that is shown where only one fits."""
        for lower in LOWER:
            self._pane(lower).set_class(lower == name, "-current")
        self.query_one("#right").set_class(name != SLOTS, "-current")

    def action_go(self, name: str) -> None:
        if name == ATTENTION and not self._pane(ATTENTION).display:
            self.app.show_message("nothing needs attention")
            return
        if name in LOWER:
            self._turn_to(name)
        self._focused_pane = name
        self._pane(name).focus()
        self._tick()

    def action_next(self, by: int) -> None:
        shown = [name for name in PANES if name != ATTENTION or self._pane(name).display]
        self.action_go(shown[(shown.index(self._focused_pane) + by) % len(shown)])

    def action_clear(self) -> None:
        self._set_filter("")
        self.query_one(Foot).rest()

    def action_filter(self) -> None:
        before = self._filter
        prompt = Prompt("filter:", before, self._set_filter)
        self.app.push_screen(prompt, lambda text: self._set_filter(before if text is None else text))

    def _set_filter(self, text: str) -> None:
        self._filter = text.strip()
        self.tick(self.app.now)

    def action_select(self) -> None:
        at = SELECTIONS.index(self.app.reader.selection)
        self.app.reader.select(SELECTIONS[(at + 1) % len(SELECTIONS)])
        self.action_go(JOBS)

    def action_open(self) -> None:
        row, snapshot = self._chosen, self.app.snapshot
        if row is None or snapshot is None:
            return
        death = next((death for id, death in snapshot.deaths if id == row.key), None)
        if death is not None:
            self.app.push_screen(DeathSheet(row.key, death))
        elif row.job is not None:
            self.app.push_screen(JobSheet(row.job))
        elif row.slot is not None:
            self.action_why()
        elif row.queue is not None:
            self._set_filter(row.queue)

    def action_output(self) -> None:
        if (id := self._job("shows what its run writes")) is not None:
            self.app.push_screen(OutputSheet(id))

    def action_why(self) -> None:
        job, slot = (self._chosen.job, self._chosen.slot) if self._chosen else (None, None)
        if job is not None:
            self.app.act(lambda store: store.jobs.why(job))
        elif slot is not None:
            self.app.act(lambda store: store.slots.why(slot))
        else:
            self.app.show_message("w says why a job or a slot is as it is: choose one first")

    def action_pause(self) -> None:
        if (queue := self._queue("pauses")) is not None:
            self.app.act(lambda store: store_calls.pause(store, queue))

    def action_resume(self) -> None:
        if (queue := self._queue("resumes")) is not None:
            self.app.act(lambda store: store_calls.resume(store, queue))

    def action_reset(self) -> None:
        slot = self._chosen.slot if self._chosen else None
        if slot is None:
            self.app.show_message("x resets a slot: choose one first")
        else:
            self.app.act(lambda store: store_calls.reset(store, slot))

    def action_cancel(self) -> None:
        if (id := self._job("cancels it")) is not None:
            self.app.cancel(id)

    def action_retry(self) -> None:
        if (id := self._job("tries it again")) is not None:
            self.app.act(lambda store: store_calls.retry(store, id))

    def action_scale(self) -> None:
        queue, snapshot = self._queue("scales"), self.app.snapshot
        if queue is None or snapshot is None:
            return
        row = self._chosen
        crews = store_calls.scalable(snapshot, queue, row.slot if row else None)
        if len(crews) != 1:
            self.app.show_message(store_calls.not_scalable(queue, crews))
            return
        ((crew, host), size) = crews[0]
        name = snapshot.hosts.get(host, host)
        label = f"scale {queue} of crew {crew} on {name}, now {size}, to:"
        self.app.push_screen(Prompt(label), lambda text: self._scale(queue, crew, host, text))

    def _scale(self, queue: str, crew: str, host: str, text: str | None) -> None:
        if text is None or not text.strip():
            return
        if not (text.strip().isascii() and text.strip().isdigit() and len(text.strip()) < 6):
            self.app.show_message(f"{text!r} is not a number of workers: write for example 4; 0 is none", bad=True)
            return
        self.app.act(lambda store: store_calls.scale(store, queue, crew, host, int(text)))

    def _queue(self, does: str) -> str | None:
        row = self._chosen
        if row is None or row.queue is None:
            self.app.show_message(f"this {does} a queue: choose one, or a slot or job of it, first")
            return None
        return row.queue

    def _job(self, does: str) -> int | None:
        row = self._chosen
        if row is None or row.job is None:
            self.app.show_message(f"there is no job on this line: choose one with a job, and this {does}")
            return None
        return row.job
