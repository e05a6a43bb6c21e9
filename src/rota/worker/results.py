"""What the jobs said that a job waited for: loaded only when a handler asks for it, for it knows the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.settings import load
from rota.store.open import open_store

if TYPE_CHECKING:
    from rota.core.job import Needed


def read(url: str | None, job_id: int, token: int) -> list[Needed]:
    """On a connection that is closed again."""
    with open_store(url, load()) as store:
        return store.jobs.results(job_id, token)
