"""Settling in a handler's own transaction: loaded only when a handler asks for it, for it knows the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.settings import load
from rota.store.jobs.payload import encode
from rota.store.open import within

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rota.worker.context import Link


def finish_within(connection: Any, link: Link, claim: tuple[int, int], result: object) -> Awaitable[None] | None:
    """Settle a claim as done in the transaction of this connection."""
    settings, text = load(start=link.folder), encode(result, "result")
    return within(
        connection,
        link.database,
        settings,
        lambda store: store.claims.finish_borrowed(*claim, text),
        begins=False,
    )
