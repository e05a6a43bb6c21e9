"""`Task`, a declared handler; `JobHandle`, a job that was added; `Batch`, jobs added together."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from rota.core.errors import BadInput
from rota.core.times import SECOND
from rota.worker.handler import CONTEXT

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from rota.app import App
    from rota.core.job import Job, NewJob
    from rota.worker.template import Command

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A declared handler. Call it to run it here; `enqueue` it to have it run by a worker.

    Example:
        >>> @app.task(queue="mail")
        ... def send(to: str) -> None: ...
        >>> send.enqueue("ada@example.org")
    """

    def __init__(self, app: App, function: Callable[P, R], template: NewJob, command: Command | None = None) -> None:
        self.app = app
        self.command = command
        self.is_coroutine = command is None and inspect.iscoroutinefunction(function)
        self.queue = template.queue
        signature = inspect.signature(function)
        parameters = [parameter for name, parameter in signature.parameters.items() if name != CONTEXT]
        self.signature = signature.replace(parameters=parameters)
        self.template = template
        self.title: str | Callable[[dict[str, Any]], str] | None = None
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = template.kind

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.command is not None:
            raise BadInput(f"{self.__name__} is a command, which only a worker runs: enqueue it")
        return self.function(*args, **kwargs)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a job that calls the handler with these arguments, without adding it.

        Raises:
            BadInput: The handler cannot be called with these arguments.

        Example:
            >>> app.enqueue(send.job("ada@example.org").replace(priority=5))
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as problem:
            raise BadInput(f"task {self.__name__} cannot be called so: {problem}") from None
        payload = _by_name(self.signature, bound)
        if self.title is not None:
            title = self.title if isinstance(self.title, str) else self.title(payload)
            return self.template.replace(title=title, payload=payload or None)
        shown = ", ".join(str(value) for value in payload.values())
        title = f"{self.__name__} {shown}"[:120] if shown else self.__name__
        return self.template.replace(title=title, payload=payload or None)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Add a job that calls the handler with these arguments.

        Returns:
            A handle of the job.

        Raises:
            BadInput: The handler cannot be called with these arguments.
            QueueFull: The queue has reached its maximum depth.
        """
        return self.app.enqueue(self.job(*args, **kwargs))


class JobHandle:
    """A job that was added to the store: `id` is its number."""

    def __init__(self, app: App, id: int) -> None:
        self._app = app
        self.id = id

    def get(self) -> Job:
        """Return the job in its current state.

        Raises:
            NotFound: The job was pruned, or came from a source and is done.
        """
        return self._app.jobs.get(self.id)

    def wait(self, timeout: float | None = None) -> Job:
        """Wait until the job is done, failed or cancelled.

        Args:
            timeout: How many seconds to wait at most. Defaults to no limit.

        Returns:
            The job in its final state.

        Raises:
            WaitedTooLong: The job was not final within `timeout`.
        """
        limit = None if timeout is None else round(timeout * SECOND)
        return self._app.jobs.wait([self.id], "final", limit)[0]

    def __repr__(self) -> str:
        return f"JobHandle(id={self.id})"


class Batch:
    """Jobs gathered in a `with` block, and one more that runs once all of them are over.

    They are added in one transaction when the block ends without an exception; `jobs` and `then` are set after it.
    A batch without jobs is over at once.
    """

    jobs: list[JobHandle]
    then: JobHandle

    def __init__(self, app: App, then: NewJob, until: str) -> None:
        self._app = app
        self._then = then
        self._until = until
        self._gathered: list[NewJob] = []

    def add(self, new: NewJob) -> None:
        """Add a job to the batch."""
        self._gathered.append(new)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            then = self._then.replace(follows=range(len(self._gathered)), until=self._until)
            *self.jobs, self.then = self._app.enqueue_many([*self._gathered, then])


def _by_name(signature: inspect.Signature, bound: inspect.BoundArguments) -> dict[str, Any]:
    """Return all arguments by name, as the payload holds them: any program can write such a payload."""
    payload: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            payload.update(value)
        elif kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise BadInput(f"parameter {name!r} has no name in a payload: make it a keyword parameter")
        else:
            payload[name] = value
    return payload
