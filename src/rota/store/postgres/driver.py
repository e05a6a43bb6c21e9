"""psycopg, or a clear word on how to get it. It takes long to import, so only what speaks to PostgreSQL comes here."""

from __future__ import annotations

import logging

from rota.core.errors import StoreError


class DriverMissing(StoreError, ImportError):
    """The extra that speaks to PostgreSQL is not installed."""


try:
    import psycopg as psycopg
except ImportError as problem:
    raise DriverMissing("PostgreSQL needs psycopg, which is not installed: pip install 'rota[postgres]'") from problem

# What goes wrong is told by us, in one line; psycopg's own lines are for who asks for them.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
