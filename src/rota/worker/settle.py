"""Settling in a handler's own transaction: loaded only when a handler asks for it, for it knows the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.settings import load
from rota.store.open import within
from rota.store.payload import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable


def finish_within(connection: Any, url: str | None, job_id: int, token: int, result: object) -> Awaitable[None] | None:
    """Settle a claim as done in the transaction of this connection."""
    settings, text = load(), encode(result, "result")
    return within(
        connection,
        url,
        settings,
        lambda store: store.claims.finish_lent(job_id, token, text),
        begins=False,
    )
