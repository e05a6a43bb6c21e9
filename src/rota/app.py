"""`App`: an application's tasks, sources and schedules, and the store that holds its jobs."""

from __future__ import annotations

import inspect
import os
import threading
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from rota.core.errors import BadInput
from rota.core.frames.messages import MOST_AT_ONCE
from rota.core.job import UNTIL_DONE, NewJob
from rota.core.schedule import ONCE, UTC, NewSchedule
from rota.core.schedule import checked as checked_schedule
from rota.core.source import KIND, Declared, checked, filler_kind, is_vectorizer
from rota.core.times import parse_duration
from rota.settings import OFF, load
from rota.task import Batch, JobHandle, Task
from rota.worker.context import check_names
from rota.worker.sources.filling import Source
from rota.worker.template import Command, parse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    import psycopg

    from rota.core.times import Duration
    from rota.crew import Crew
    from rota.settings import Settings
    from rota.store.claims.manual import Claims
    from rota.store.engine.database import Clock
    from rota.store.jobs.jobs import Jobs
    from rota.store.maintenance.reconcile import Reconciled
    from rota.store.queues import Queues
    from rota.store.store import Store
    from rota.store.workers.registration import Workers

    Sync = psycopg.Connection[Any]
    Async = psycopg.AsyncConnection[Any]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
# Held while a database is opened, so that only one thread of this process creates it. Other processes lose the race
# for its name instead (decision 8).
_opening = threading.Lock()


def _warn(text: str) -> None:
    """Log a message about the database, such as that a new one was created in this folder."""
    import logging

    logging.getLogger("rota").warning(text)


def _replace_lock() -> None:
    """Give a forked child a lock of its own: the thread that held the old one is not in this process."""
    global _opening  # noqa: PLW0603
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_replace_lock)


class App:
    """A registry of tasks and a database, which is created when it is first used. Any thread may use it.

    Args:
        url: The database, such as `"sqlite:///jobs.db"` or `"postgresql://host/jobs"`. Without it the settings name
            one, or else it is the nearest `.rota/rota.db`.
        settings: The settings. Without them they are loaded from `rota.toml` and the environment.
        context: Values that become attributes of every handler's `ctx`. A setup may add more to `app.context`.

    Raises:
        BadSetting: A setting is not valid.

    Example:
        >>> app = App()
        >>> @app.task(queue="mail")
        ... def send(to: str) -> None: ...
        >>> send.enqueue("ada@example.org").wait()
    """

    def __init__(
        self, url: str | None = None, settings: Settings | None = None, context: Mapping[str, Any] | None = None
    ) -> None:
        self.context: dict[str, Any] = dict(context or {})
        check_names(self.context)
        self.settings = settings or load()
        self._url = url or self.settings.db
        self._clock: Clock | None = None
        self._own = threading.local()
        self._opened: list[Store] = []
        self._setups: dict[str, list[Callable[[], Any]]] = {}
        self._concurrency: dict[str, int] = {}
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.sources: dict[str, Source] = {}
        self.schedules: dict[str, NewSchedule] = {}
        # Runs the jobs of every kind that has no task; set by `rota worker exec`.
        self.every: Command | None = None

    @property
    def store(self) -> Store:
        """The store on this thread's connection, which is opened when it is first used."""
        store: Store | None = getattr(self._own, "store", None)
        if store is None:
            store = self._own.store = self.connect()
            self._opened.append(store)
        return store

    def connect(self) -> Store:
        """Open a connection of the caller's own, to be closed after use."""
        # Not at module level: every worker imports this file, and one that only runs handlers needs no store.
        from rota.store.open import open_store

        with _opening:
            return open_store(self._url, self.settings, make=True, clock=self._clock, told=_warn)

    @property
    def jobs(self) -> Jobs:
        """Jobs: to read, wait for, cancel and retry them."""
        return self.store.jobs

    @property
    def claims(self) -> Claims:
        """Claims by hand: to take, renew and settle one."""
        return self.store.claims

    @property
    def workers(self) -> Workers:
        """Workers: to register, list and stop them."""
        return self.store.workers

    @property
    def queues(self) -> Queues:
        """Queues: their counts and limits, and to pause and resume them."""
        return self.store.queues

    def task(  # noqa: PLR0913 (each is a word that people write or leave out)
        self,
        queue: str = "default",
        *,
        name: str | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
        timeout: str | None = None,
        cron: str | None = None,
        timezone: str = UTC,
        missed: str = ONCE,
        title: str | Callable[[dict[str, Any]], str] | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Declare a handler: jobs of its kind run the decorated function or coroutine.

        Args:
            queue: The queue that its jobs go to.
            name: The kind of its jobs. Defaults to the name of the function.
            priority: Jobs of a higher priority run first.
            max_attempts: How often a job is tried. Defaults to the setting `max_attempts`.
            timeout: How long an attempt may take, such as `"30s"`.
            cron: Add a job whenever this cron expression is due.
            timezone: The time zone of `cron`.
            missed: What becomes of times of `cron` that passed while nothing ran: `once` adds one job for all of them,
                `all` one for each, `skip` none.
            title: What people see of a job: a text, or a function of its payload. Without one it shows the arguments,
                so give one where these are secret.

        Returns:
            A decorator that makes a `Task` of a function.

        Raises:
            BadInput: Another task has this name, or an argument is not valid.
        """
        template = NewJob("", queue, "", priority=priority, max_attempts=max_attempts, timeout=_limit(timeout))

        def declare(function: Callable[P, R]) -> Task[P, R]:
            kind = name or function.__name__
            task = self._declare(Task(self, function, template.replace(title=kind, kind=kind)))
            task.title = title
            if cron is not None:
                self._schedule(task, cron, timezone, missed)
            return task

        return declare

    def command(
        self,
        queue: str = "default",
        *,
        argv: Sequence[str],
        name: str | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
        timeout: str | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Declare a command as a handler. The decorated function is never called: its parameters are the payload.

        Args:
            queue: The queue that its jobs go to.
            argv: The words to run, the program first. `{id}`, `{title}`, `{queue}`, `{kind}` and `{payload.NAME}` are
                filled in, each within its own word.
            name: The kind of its jobs. Defaults to the name of the function.
            priority: Jobs of a higher priority run first.
            max_attempts: How often a job is tried. Defaults to the setting `max_attempts`.
            timeout: How long an attempt may take, such as `"30s"`.

        Returns:
            A decorator that makes a `Task` of a function.

        Raises:
            BadInput: Another task has this name, or a word has an unknown gap.

        Example:
            >>> @app.command(queue="convert", argv=["ffmpeg", "-i", "{payload.path}", "{id}.mp3"])
            ... def convert(path: str) -> None: ...
        """
        command = Command(parse(argv))
        template = NewJob("", queue, "", priority=priority, max_attempts=max_attempts, timeout=_limit(timeout))

        def declare(function: Callable[P, R]) -> Task[P, R]:
            kind = name or function.__name__
            return self._declare(Task(self, function, template.replace(title=kind, kind=kind), command))

        return declare

    def _declare(self, task: Task[P, R]) -> Task[P, R]:
        if task.__name__.startswith(KIND):
            raise BadInput(f"{task.__name__!r} is no name for a task: those that begin with {KIND} are rota's own")
        if task.__name__ in self.tasks:
            raise BadInput(f"there is a task {task.__name__!r} already: give one of them another name=")
        _check_concurrency(task, self.concurrency(task.queue))
        self.tasks[task.__name__] = task
        return task

    def _schedule(self, task: Task[P, R], cron: str, timezone: str, missed: str) -> None:
        """Add a schedule whose jobs call the task without arguments."""
        try:
            task.signature.bind()
        except TypeError as problem:
            raise BadInput(
                f"task {task.__name__} has a cron, so it is called without arguments, and cannot be: {problem}"
            ) from None
        names = ("queue", "kind", "priority", "max_attempts", "timeout")
        settings = {name: getattr(task.template, name) for name in names}
        schedule = NewSchedule(task.__name__, cron, timezone, missed, **settings)
        self.schedules[task.__name__] = checked_schedule(schedule, 0)

    def pool(self, queue: str = "default", *, concurrency: int) -> None:
        """Set how many coroutines each worker of this queue's pool runs at a time; the default is 1.

        Raises:
            BadInput: The number is out of range, or a task of this queue is not a coroutine.
        """
        if type(concurrency) is not int or not 1 <= concurrency <= MOST_AT_ONCE:
            raise BadInput(f"concurrency is a whole number from 1 to {MOST_AT_ONCE}, not {concurrency!r}")
        for task in self.tasks.values():
            if task.queue == queue:
                _check_concurrency(task, concurrency)
        self._concurrency[queue] = concurrency

    def concurrency(self, queue: str) -> int:
        """Return how many jobs each worker of this queue's pool runs at a time."""
        return self._concurrency.get(queue, 1)

    def setup(self, queue: str = "default") -> Callable[[Callable[[], S]], Callable[[], S]]:
        """Declare a function that each worker of this queue calls once, before its first job: load models here.

        A coroutine function runs in the event loop of the tasks.
        """

        def declare(function: Callable[[], S]) -> Callable[[], S]:
            self._setups.setdefault(queue, []).append(function)
            return function

        return declare

    def source(  # noqa: PLR0913 (each is a word that people write or leave out)
        self,
        queue: str = "default",
        *,
        task: str | Task[Any, Any],
        name: str | None = None,
        every: str = "30s",
        low: int = 100,
        batch: int = 1000,
        repeats: int | None = 3,
        vectorizer: int | str | None = None,
    ) -> Callable[[Callable[[], Iterable[Any]]], Source]:
        """Declare where work is found: keys, or pairs of key and payload, that the function yields become jobs.

        A worker calls the function when few of its jobs are ready.

        Args:
            queue: The queue that its jobs go to.
            task: The task that runs the jobs, or its name.
            name: The name of the source. Defaults to the name of the function.
            every: The shortest time between two passes, such as `"30s"`.
            low: The next pass begins when fewer than this number of jobs are ready.
            batch: How many new keys a pass takes at most.
            repeats: A key that comes again after more successes is held back; None is no limit.
            vectorizer: Where workers are tracked, progress is reported for this vectorizer: an id, or the table that
                it reads.

        Returns:
            A decorator that makes a source of a function.

        Raises:
            BadInput: Another source has this name, or an argument is not valid.
        """
        if vectorizer is not None and not is_vectorizer(vectorizer):
            raise BadInput(f"vectorizer={vectorizer!r:.80} is neither the id of a vectorizer nor the name of its table")

        def declare(find: Callable[[], Iterable[Any]]) -> Source:
            source_name = name or getattr(find, "__name__", None)
            if source_name is None:
                raise BadInput("this source has no name of its own: give it one with name=")
            if source_name in self.sources:
                raise BadInput(f"there is a source {source_name!r} already: give one of them another name=")
            kind = task if isinstance(task, str) else task.__name__
            declared = Declared(source_name, queue, kind, parse_duration(every), low, batch, repeats)
            source = self.sources[source_name] = Source(self, find, checked(declared), vectorizer)
            filler = filler_kind(source_name)
            self.tasks[filler] = Task(self, source.fill, NewJob(filler, queue, filler))
            return source

        return declare

    def declarations(self, queue: str = "default") -> dict[str, Any]:
        """Return what a worker of this queue declares in its HELLO frame: its tasks, sources and schedules."""
        every = self.every is not None
        commands = [kind for kind, task in self.tasks.items() if task.command is not None]
        coroutines = [kind for kind, task in self.tasks.items() if task.is_coroutine]
        document: dict[str, Any] = {
            "tasks": every or sorted(kind for kind in self.tasks if not kind.startswith(KIND)),
            "concurrency": self.concurrency(queue),
            "cancels": every or sorted(commands + coroutines),
            "whole": every or sorted(commands),
        }
        if self.sources:
            fields = Declared._fields
            document["sources"] = [
                {field: getattr(source.declared, field) for field in fields} for source in self.sources.values()
            ]
            named = {name: source.vectorizer for name, source in self.sources.items() if source.vectorizer is not None}
            document |= {"vectorizers": named} if named else {}
        if self.schedules:
            document["schedules"] = [
                {field: getattr(schedule, field) for field in NewSchedule._fields}
                for schedule in self.schedules.values()
            ]
        return document

    def template(self, kind: str) -> NewJob:
        """Return the template of a task's jobs: queue, priority, attempts and time-out."""
        return self.tasks[kind].template if kind in self.tasks else NewJob(kind)

    def prepare(self, queue: str, finish: Callable[[Coroutine[Any, Any, Any]], None]) -> None:
        """Run the setups of this queue, and check the names that they added to the context.

        `finish` runs a coroutine to its end, in the event loop that the tasks will use.
        """
        for function in self._setups.get(queue, []):
            answer = function()
            if inspect.iscoroutine(answer):
                finish(answer)
        check_names(self.context)

    @overload
    def enqueue(self, new: NewJob, wait: str | None = None, *, connection: Sync | None = None) -> JobHandle: ...

    @overload
    def enqueue(self, new: NewJob, *, connection: Async) -> Awaitable[JobHandle]: ...

    def enqueue(
        self, new: NewJob, wait: str | None = None, *, connection: Sync | Async | None = None
    ) -> JobHandle | Awaitable[JobHandle]:
        """Add a job.

        Args:
            new: The job.
            wait: How long to wait while the queue is full, such as `"30s"`.
            connection: A psycopg connection of yours: the job exists if and only if you commit. Await the answer if it
                is asynchronous.

        Returns:
            A handle of the job.

        Raises:
            QueueFull: The queue was still full after `wait`.
            BadInput: The job is not valid.

        Example:
            >>> app.enqueue(NewJob("Tag a.wav", queue="tag", kind="tag", payload={"path": "a.wav"}))
        """
        if connection is None:
            return self._add([new], wait)[0]
        jobs = self._traced([new])
        return self._within(connection, wait, lambda store: JobHandle(self, store.jobs.add_many(jobs)[0]))

    def chain(self, *steps: NewJob) -> list[JobHandle]:
        """Add jobs that run one after another, each once the one before it is done; all or none are added.

        Returns:
            Their handles, in the same order.
        """
        return self.enqueue_many(step.replace(follows=[n - 1]) if n else step for n, step in enumerate(steps))

    def batch(self, then: NewJob, until: str = UNTIL_DONE) -> Batch:
        """Gather jobs in a `with` block.

        Args:
            then: The job that runs after all of them.
            until: When it runs: with `"done"` once all are done, with `"final"` once all are done, failed or cancelled.

        Example:
            >>> with app.batch(then=report.job()) as batch:
            ...     batch.add(tag.job("a.flac"))
        """
        return Batch(self, then, until)

    @overload
    def enqueue_many(
        self, new: Iterable[NewJob], wait: str | None = None, *, connection: Sync | None = None
    ) -> list[JobHandle]: ...

    @overload
    def enqueue_many(self, new: Iterable[NewJob], *, connection: Async) -> Awaitable[list[JobHandle]]: ...

    def enqueue_many(
        self, new: Iterable[NewJob], wait: str | None = None, *, connection: Sync | Async | None = None
    ) -> list[JobHandle] | Awaitable[list[JobHandle]]:
        """Add many jobs in one transaction, all or none; the arguments and errors are those of `enqueue`.

        Returns:
            A handle of each job, in the same order.
        """
        if connection is None:
            return self._add(new, wait)
        jobs = list(self._traced(new))
        return self._within(connection, wait, lambda store: [JobHandle(self, id) for id in store.jobs.add_many(jobs)])

    def _add(self, new: Iterable[NewJob], wait: str | None) -> list[JobHandle]:
        patience = 0 if wait is None else parse_duration(wait)
        return [JobHandle(self, id) for id in self.jobs.add_many(self._traced(new), patience)]

    def _traced(self, new: Iterable[NewJob]) -> Iterable[NewJob]:
        """Attach the caller's trace context to the jobs, if tracing is on."""
        if self.settings.tracing == OFF:
            return new
        # Not at module level: it needs the optional extra `otel`.
        from rota.worker.tracing import Tracing

        return map(Tracing(self.settings).carried, new)

    def _within(self, connection: object, wait: str | None, work: Callable[[Store], R]) -> R | Awaitable[R]:
        """Call `work` with a store inside the caller's transaction."""
        if wait is not None:
            raise BadInput("wait= and connection= do not go together: a transaction of yours should not stay open")
        from rota.store.open import within

        return within(connection, self._url, self.settings, work, begins=True, clock=self._clock)

    def crew(
        self, more: Mapping[str, int] | None = None, *, name: str | None = None, log: str | None = None, **pools: int
    ) -> Crew:
        """Make a crew of workers for these tasks, which ends with this program.

        Args:
            more: Pools whose queue is not a Python name, such as `{"high-priority": 2}`.
            name: The name of the crew. Defaults to the first free of `beside`, `beside-2` …
            log: The file that its output goes to. Defaults to `crew.log` beside the database.
            pools: The number of workers of each queue.

        Raises:
            BadInput: There is no pool, or one has no workers.

        Example:
            >>> with app.crew(tag=2, library=10):
            ...     tag.enqueue("a.flac").wait()
        """
        from rota.crew import Crew

        return Crew(self, {**(more or {}), **pools}, name, log)

    def events(self, topics: Sequence[str] = (), after: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the live feed: a snapshot, then each change.

        Args:
            topics: Patterns of topics, such as `"queue:tag:*"`; without any, everything.
            after: The id of an event: yield the changes after it instead of a snapshot.
        """
        from rota.live.feed import follow

        return follow(self.store, topics, after)

    def reconcile(self, plan: bool = False) -> Reconciled:
        """Repair the store now: dead workers, expired leases, orphaned jobs.

        Args:
            plan: Only report what would change.

        Returns:
            How much of each kind was repaired.
        """
        return self.store.reconcile(plan)

    def close(self) -> None:
        """Close the connections of all threads; using the app again opens new ones."""
        for store in self._opened:
            store.close()
        self._opened.clear()
        self._own = threading.local()


def _check_concurrency(task: Task[Any, Any], concurrency: int) -> None:
    if concurrency > 1 and not task.is_coroutine and not task.__name__.startswith(KIND):
        what = "a command" if task.command is not None else "a plain function"
        raise BadInput(
            f"{task.__name__} is {what}, which has its worker for itself, but each worker of queue {task.queue} has "
            f"{concurrency} jobs at a time: declare it for another queue, or make it a coroutine"
        )


def _limit(timeout: str | None) -> Duration | None:
    return parse_duration(timeout) if timeout else None
