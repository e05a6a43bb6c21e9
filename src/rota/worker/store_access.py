"""What a handler may ask of the store: results of dependencies, and settling in the handler's own transaction.

Loaded only when a handler asks, because a worker imports no store otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.settings import load
from rota.store.jobs.payload import encode
from rota.store.open import open_store, within

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rota.core.job import Needed
    from rota.worker.context import Link


def read_results(link: Link, job_id: int, token: int) -> list[Needed]:
    """Return the results of the jobs that this job waited for, on a connection that is closed again."""
    with open_store(link.database, load(start=link.folder)) as store:
        return store.jobs.results(job_id, token)


def finish_within(connection: Any, link: Link, claim: tuple[int, int], result: object) -> Awaitable[None] | None:
    """Settle a claim as done in the transaction of this connection (decision 18)."""
    settings, text = load(start=link.folder), encode(result, "result")
    return within(
        connection,
        link.database,
        settings,
        lambda store: store.claims.finish_borrowed(*claim, text),
        begins=False,
    )
