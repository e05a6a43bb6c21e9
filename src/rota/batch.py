"""A batch: jobs that are gathered in a block, and one more that runs once all of them are over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

    from rota.app import App, Enqueued
    from rota.core.job import NewJob


class Batch:
    """Made durable in one transaction when its block ends without an exception; then `jobs` and `then` are known.

    A batch without jobs is over at once.
    """

    jobs: list[Enqueued]
    then: Enqueued

    def __init__(self, app: App, then: NewJob, until: str) -> None:
        self._app = app
        self._then = then
        self._until = until
        self._gathered: list[NewJob] = []

    def add(self, new: NewJob) -> None:
        """Let this job be one of the batch."""
        self._gathered.append(new)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            then = self._then.replace(follows=range(len(self._gathered)), until=self._until)
            *self.jobs, self.then = self._app.enqueue_many([*self._gathered, then])
