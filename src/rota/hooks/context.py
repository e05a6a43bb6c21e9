"""What `execute` may know and say while it runs: its second argument."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rota.core.errors import BadInput
from rota.core.health import LONGEST_RECOVERY
from rota.core.jsontext import encoder
from rota.core.record import Record
from rota.core.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from rota.core.claim import Run
    from rota.core.job import Job

    class Link(Protocol):
        """What a context asks of whoever holds the claim."""

        recovering: float | None

        @property
        def worker_id(self) -> str: ...

        @property
        def token(self) -> int: ...

        @property
        def run_id(self) -> str: ...

        @property
        def stopping(self) -> bool: ...

        @property
        def lost(self) -> bool: ...

        def renew(self) -> None: ...

        def log(self, text: str) -> None: ...

        def progress(self, done: float, total: float | None, note: str | None) -> None: ...

        def keep(self, checkpoint: Any) -> None: ...


LARGEST = 10**18


class PreviousRun(Record):
    """What an earlier attempt at the same job did, as `rota runs` shows it."""

    run_id: str
    worker_id: str
    attempt: int
    status: str
    reason: str | None
    error: str | None
    note: str | None


class Context:
    """One run of one job. Whatever the application gave as context is an attribute too."""

    __slots__ = ("_checkpoint", "_link", "_values", "deadline", "job", "previous_runs", "state")

    def __init__(
        self, job: Job, runs: Sequence[Run], link: Link, values: Mapping[str, Any], deadline: float | None
    ) -> None:
        self._link = link
        self._values = values
        self._checkpoint = job.checkpoint_json
        self.job = job
        self.deadline = deadline  # a moment of `time.monotonic()`; None when the job has no time-out
        self.state: dict[str, Any] = {}
        self.previous_runs = tuple(
            PreviousRun(run.id, run.worker_id, run.attempt, run.status, run.reason, run.error, run.note) for run in runs
        )

    @property
    def job_id(self) -> int:
        return self.job.id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.job.attempts + 1

    @property
    def token(self) -> int:
        return self._link.token

    @property
    def run_id(self) -> str:
        return self._link.run_id

    @property
    def worker_id(self) -> str:
        return self._link.worker_id

    @property
    def checkpoint(self) -> Any:
        """What was last assigned, by this attempt or an earlier one; None when nothing was.

        Assigning makes it durable, and the next attempt begins with it. Each reading is a copy.
        """
        return None if self._checkpoint is None else json.loads(self._checkpoint)

    @checkpoint.setter
    def checkpoint(self, value: Any) -> None:
        self._link.keep(value)
        self._checkpoint = encoder()(value)

    @property
    def stopping(self) -> bool:
        """Whether the worker was asked to stop: a long handler may look, keep a checkpoint and leave off early."""
        return self._link.stopping

    @property
    def lost(self) -> bool:
        """Whether the claim may be lost: it was taken or called off, or nobody could renew its lease in time."""
        return self._link.lost

    def renew_lease(self) -> None:
        """Make sure that the claim still holds, which is renewed without asking too; `Stale` when it is lost."""
        self._link.renew()

    def log(self, text: object) -> None:
        """Say something in the application's log, or on stderr where it has set up none."""
        self._link.log(str(text))

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Tell how far the job is; say it as often as you like, the latest counts."""
        for number in (done, total):
            if number is not None and not _is_number(number):
                raise BadInput(f"progress takes numbers, such as progress(3, 10), not {number!r}")
        self._link.progress(done, total, None if note is None else str(note))

    def recovering(self, seconds: float) -> Recovering:
        """For a `with` block that may look dead, such as loading a model: tell it, for at most 120 seconds."""
        if not _is_number(seconds) or seconds <= 0:
            raise BadInput(f"recovering takes a number of seconds, such as 30, not {seconds!r}")
        return Recovering(self._link, min(float(seconds), LONGEST_RECOVERY / SECOND))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(sorted(self._values)) or "none"
            raise AttributeError(f"ctx has no {name!r}; of your own context it has: {known}") from None


class Recovering:
    """While it lasts, the worker says that it recovers."""

    def __init__(self, link: Link, seconds: float) -> None:
        self._link = link
        self._seconds = seconds
        self._before: float | None = None

    def __enter__(self) -> None:
        self._before, self._link.recovering = self._link.recovering, self._seconds

    def __exit__(self, *_: object) -> None:
        self._link.recovering = self._before


RESERVED = frozenset(name for name in dir(Context) if not name.startswith("_"))


def check_names(values: Mapping[Any, Any]) -> None:
    """Refuse names that a context has already, or that no attribute can have."""
    for name in values:
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise BadInput(f"{name!r} cannot be an attribute of ctx: write a name such as model")
        if name in RESERVED:
            raise BadInput(f"ctx.{name} is rota's own: give your context another name, such as my_{name}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and -LARGEST <= value <= LARGEST
