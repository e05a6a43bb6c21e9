"""A schema of a test's own, in a PostgreSQL database that the user's tests have anyway."""

from __future__ import annotations

import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.settings import Settings
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def fresh_schema(url: str) -> Iterator[str]:
    """Make a new, empty schema of rota in the PostgreSQL database `url`, and drop it with all that it holds at the end.

    The block gets the URL that names it. Whose role `url` names needs the right to make schemas there.
    """
    from rota.store.postgres.connection import address, with_schema
    from rota.store.postgres.open import remove

    settings, own = Settings(), with_schema(address(url).url, f"rota_test_{secrets.token_hex(8)}")
    with open_store(own, settings, make=True) as store:
        runs = store.database.runs
    try:
        yield own
    finally:
        remove(own, settings)
        shutil.rmtree(runs, ignore_errors=True)
