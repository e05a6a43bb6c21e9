"""psycopg, or a clear word on how to get it. It takes long to import, so only what speaks to PostgreSQL comes here."""

from __future__ import annotations

from rota.core.errors import StoreError


class DriverMissing(StoreError, ImportError):
    """The extra that speaks to PostgreSQL is not installed."""


try:
    import psycopg as psycopg
except ImportError as problem:
    raise DriverMissing("PostgreSQL needs psycopg, which is not installed: pip install 'rota[postgres]'") from problem
