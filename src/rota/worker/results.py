"""What the jobs said that a job waited for: loaded only when a handler asks for it, for it knows the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.settings import load
from rota.store.open import open_store

if TYPE_CHECKING:
    from rota.core.job import Needed
    from rota.worker.context import Link


def read(link: Link, job_id: int, token: int) -> list[Needed]:
    """On a connection that is closed again."""
    with open_store(link.database, load(start=link.folder)) as store:
        return store.jobs.results(job_id, token)
