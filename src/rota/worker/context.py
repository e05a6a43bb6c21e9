"""The context of a run, for a handler that has a parameter named `ctx`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, overload

from rota.core.errors import BadInput, TooLarge
from rota.core.health import LONGEST_RECOVERY
from rota.core.jsontext import encoder, sound
from rota.core.queue import DEFAULT
from rota.core.record import Record
from rota.core.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping
    from datetime import datetime
    from typing import Protocol

    import psycopg

    from rota.core.frames.assignment import PreviousRun, RunJob
    from rota.core.job import Needed

    Sync = psycopg.Connection[Any]
    Async = psycopg.AsyncConnection[Any]

    class Link(Protocol):
        """What a context needs of the worker that runs the handler."""

        @property
        def worker_id(self) -> str: ...

        @property
        def database(self) -> str | None: ...

        @property
        def folder(self) -> str: ...

        @property
        def stopping(self) -> bool: ...

        @property
        def lost(self) -> bool: ...

        @property
        def recovering(self) -> float | None: ...

        def renew(self, job: RunJob) -> None: ...

        def log(self, job: RunJob, text: str) -> None: ...

        def progress(self, job: RunJob, done: float, total: float | None, note: str | None) -> None: ...

        def save_checkpoint(self, job: RunJob, checkpoint: str) -> None: ...

        def recover(self, seconds: float | None) -> None: ...


LARGEST_CHECKPOINT = 256 * 1024
LARGEST = 10**18
_encode = encoder()


class JobInHand(Record):
    """The job that a handler runs, as `ctx.job`. `scheduled_for` is the time of its schedule that it is for."""

    id: int
    title: str
    queue: str
    kind: str
    payload: Any
    priority: int
    attempt: int
    max_attempts: int
    key: str | None = None
    scheduled_for: datetime | None = None


class Context:
    """One run of one job. What the application or a setup put into its context is an attribute too."""

    __slots__ = ("_checkpoint", "_job", "_link", "_state", "_values")

    def __init__(self, job: RunJob, link: Link, values: Mapping[str, Any]) -> None:
        self._job = job
        self._link = link
        self._values = values
        self._checkpoint = job.checkpoint
        self._state: dict[str, Any] | None = None

    @property
    def job(self) -> JobInHand:
        job = self._job
        return JobInHand(
            job.id,
            job.title,
            job.queue or DEFAULT,
            job.kind,
            None if job.payload is None else json.loads(job.payload),
            job.priority,
            job.attempt,
            job.max_attempts,
            job.key,
            _moment(job.scheduled_for),
        )

    @property
    def job_id(self) -> int:
        return self._job.id

    @property
    def token(self) -> int:
        return self._job.token

    @property
    def run_id(self) -> str:
        return self._job.run_id

    @property
    def worker_id(self) -> str:
        return self._link.worker_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._job.attempt

    @property
    def previous_runs(self) -> tuple[PreviousRun, ...]:
        """What the earlier attempts did, oldest first."""
        return tuple(self._job.previous_runs)

    @property
    def state(self) -> dict[str, Any]:
        """A dict for this run alone."""
        if self._state is None:
            self._state = {}
        return self._state

    @property
    def checkpoint(self) -> Any:
        """What was last assigned, by this attempt or an earlier one; None if nothing was.

        Assigning a value saves it for the next attempt. Each reading is a copy: changing that saves nothing.

        Raises:
            BadInput: The value cannot be written as JSON.
            TooLarge: It has more than 256 KiB as JSON.
        """
        return None if self._checkpoint is None else json.loads(self._checkpoint)

    @checkpoint.setter
    def checkpoint(self, value: Any) -> None:
        text = _as_checkpoint(value)
        self._link.save_checkpoint(self._job, text)
        self._checkpoint = text

    @property
    def deadline(self) -> float | None:
        """When this run is ended, as a moment of `time.monotonic()`; None if it has no time-out."""
        return self._job.deadline

    @property
    def stopping(self) -> bool:
        """Whether the worker was asked to stop: a long handler may save a checkpoint and return early."""
        return self._link.stopping

    @property
    def lost(self) -> bool:
        """Whether the claim may be lost: it was taken, or nobody renewed it in time, so another may run the job."""
        return self._link.lost

    def renew_lease(self) -> Renewed:
        """Check that the claim is still valid. It is renewed without asking.

        A coroutine may await this or not: it is done when it returns.

        Raises:
            Stale: The claim may be lost, so another worker may run the job.
        """
        self._link.renew(self._job)
        return Renewed()

    @overload
    def settle_in(self, connection: Sync, result: object = None) -> None: ...

    @overload
    def settle_in(self, connection: Async, result: object = None) -> Awaitable[None]: ...

    def settle_in(self, connection: Sync | Async, result: object = None) -> Awaitable[None] | None:
        """Settle the job as done in a PostgreSQL transaction of yours: it is done if and only if you commit.

        Let it be the last thing before the commit, which must follow within 10 s (decision 18).

        Args:
            connection: A psycopg connection to the database that rota's jobs are in.
            result: The job's result, anything that JSON can hold.

        Returns:
            None; something to await, if the connection is asynchronous.

        Raises:
            Stale: The claim is lost. Roll back.
        """
        # Imported late: a worker that never asks knows no store, which keeps it small (decision 10).
        from rota.worker.store_access import finish_within

        return finish_within(connection, self._link, (self.job_id, self.token), result)

    def results(self) -> list[Needed]:
        """Return the jobs that this one waited for, by their ids: each with `status`, `result`, `error` and `title`.

        They are read from the database each time.
        """
        from rota.worker.store_access import read_results

        return read_results(self._link, self.job_id, self.token)

    def log(self, text: object) -> None:
        """Write a line to the orchestrator's log; with `run_worker`, to the application's."""
        self._link.log(self._job, str(text))

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Report how far the job is, as often as you like; the latest report counts.

        Args:
            done: How much is done.
            total: Of how much.
            note: A few words for people.
        """
        for number in (done, total):
            if number is not None and not _is_number(number):
                raise BadInput(f"progress takes numbers, such as progress(3, 10), not {number!r}")
        self._link.progress(self._job, done, total, None if note is None else str(note))

    def recovering(self, seconds: float) -> Recovering:
        """Return a context manager for a block that may look dead, such as loading a model.

        Args:
            seconds: How long the block may take, at most 120.
        """
        if not _is_number(seconds) or seconds <= 0:
            raise BadInput(f"recovering takes a number of seconds, such as 30, not {seconds!r}")
        return Recovering(self._link, min(float(seconds), LONGEST_RECOVERY / SECOND))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            names = ", ".join(sorted(self._values)) or "none"
            raise AttributeError(f"ctx has no {name!r}; of your own context it has: {names}") from None


class Renewed:
    """The result of `renew_lease`, which a coroutine may await."""

    def __await__(self) -> Iterator[None]:
        return iter(())


class Recovering:
    """A `with` block during which the worker reports that it recovers."""

    def __init__(self, link: Link, seconds: float) -> None:
        self._link = link
        self._seconds = seconds
        self._before: float | None = None

    def __enter__(self) -> None:
        # Blocks may be nested: the outer one goes on after the inner one.
        self._before = self._link.recovering
        self._link.recover(self._seconds)

    def __exit__(self, *_: object) -> None:
        self._link.recover(self._before)


RESERVED = frozenset(name for name in dir(Context) if not name.startswith("_"))


def check_names(values: Mapping[Any, Any]) -> None:
    """Refuse names that a context has already, or that no attribute can have."""
    for name in values:
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise BadInput(f"{name!r} cannot be an attribute of ctx: write a name such as model")
        if name in RESERVED:
            raise BadInput(f"ctx.{name} is rota's own: give your context another name, such as my_{name}")


def _moment(instant: int | None) -> datetime | None:
    if instant is None:
        return None
    from datetime import UTC, datetime, timedelta

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and -LARGEST <= value <= LARGEST


def _as_checkpoint(value: Any) -> str:
    try:
        text = _encode(value)
        sound(text, value)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadInput(f"the checkpoint cannot be written as JSON: {problem}") from None
    if size > LARGEST_CHECKPOINT:
        raise TooLarge(
            f"the checkpoint is too large: {size:,} bytes, at most {LARGEST_CHECKPOINT:,}; "
            "store it elsewhere and keep its path"
        )
    return text
