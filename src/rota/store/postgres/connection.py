"""Connections to a PostgreSQL server: the driver, reading a URL, noticing a dead link, errors that say what to do.

psycopg takes long to import, so only what speaks to PostgreSQL may import this module.
"""

from __future__ import annotations

import logging
import select
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from rota.core.errors import BadInput, Contended, NotAllowed, NotFound, StoreAway, StoreError, StoreFull
from rota.core.record import Record


class DriverMissing(StoreError, ImportError):
    """The extra that speaks to PostgreSQL is not installed."""


try:
    import psycopg as psycopg
except ImportError as problem:
    raise DriverMissing("PostgreSQL needs psycopg, which is not installed: pip install 'rota[postgres]'") from problem

if TYPE_CHECKING:
    from typing import Any

    Connection = psycopg.Connection[tuple[Any, ...]]

# rota reports what goes wrong, in one line; psycopg's own log lines are for those who ask for them.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
SCHEMES = ("postgresql://", "postgres://")
DEFAULT_SCHEMA = "rota"
EXAMPLE = "write for example postgresql://user@host:5432/database"
_LONGEST_SCHEMA = 40
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
# A link that was cut is noticed in seconds, not after the hours that TCP allows. The URL may say otherwise.
DEFAULTS = {
    "client_encoding": "utf8",
    "connect_timeout": "5",
    "fallback_application_name": "rota",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "5000",
}
# The same at the server's end: what a host that is gone holds locked is free again in seconds.
_WATCH = b"SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3"
_WATCH += b"; SET tcp_user_timeout = 5000"


class Address(Record):
    """Where a database is: the settings for libpq, the schema, and its name for people, which holds no password."""

    url: str
    conninfo: str
    schema: str
    shown: str


def address(url: str, schema: str | None = None) -> Address:
    """Read a URL. `?schema=name` in it is stronger than `schema`. Messages never repeat it: it may hold a password."""
    known = check_url(without_schema(url))
    name = check_schema(_option(url) or schema or DEFAULT_SCHEMA)
    given = psycopg.conninfo.conninfo_to_dict(known)
    shown = "{user}{host}{port}/{dbname}".format(
        user=f"{quote(str(given['user']), safe='')}@" if given.get("user") else "",
        host=given.get("host") or given.get("hostaddr") or "",
        port=f":{given['port']}" if given.get("port") else "",
        dbname=given.get("dbname", ""),
    )
    option = f"?schema={name}" if name != DEFAULT_SCHEMA else ""
    settings = psycopg.conninfo.make_conninfo("", **{**DEFAULTS, **given})
    return Address(with_schema(known, name), settings, name, f"postgresql://{shown}{option}")


def check_url(url: str) -> str:
    """Refuse what is no PostgreSQL URL."""
    if not url.startswith(SCHEMES):
        raise BadInput(f"this is not a PostgreSQL URL: {EXAMPLE}")
    try:
        ports = str(psycopg.conninfo.conninfo_to_dict(url).get("port") or "5432").split(",")
    except psycopg.Error:
        ports = ["unreadable"]
    if not all(port.isdigit() for port in ports if port):
        raise BadInput(f"this is not a PostgreSQL URL: {EXAMPLE}, with % codes for special characters in a password")
    return url


def check_schema(name: str) -> str:
    """A schema's name goes into statements, roles and channels, so its letters are few."""
    if 0 < len(name) <= _LONGEST_SCHEMA and set(name) <= _LETTERS and not name[0].isdigit() and name[:3] != "pg_":
        return name
    raise BadInput(
        f"{name!r} is not a schema for rota: small letters, digits and '_', at most {_LONGEST_SCHEMA},"
        " not beginning with a digit or pg_"
    )


def connect(conninfo: str) -> Connection:
    """A connection on which we say ourselves when a transaction begins and ends, and what is prepared."""
    return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)


def is_direct(connection: Connection) -> bool:
    """Whether the server itself is at the other end, and not a pooler that may change it for each transaction."""
    row = connection.execute(b"SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] == connection.info.backend_pid


def is_lost(connection: Connection) -> bool:
    """Whether something came over a link on which nothing was asked: nearly always its end."""
    return _has_news(connection, 0)


def take_answers(connection: Connection) -> None:
    """Wait for the answers to what was sent, and drop them. libpq itself would wait with all other threads."""
    wire = connection.pgconn
    while True:
        while wire.is_busy():
            _has_news(connection, None)
            wire.consume_input()
        if wire.get_result() is None:
            return


def _has_news(connection: Connection, milliseconds: int | None) -> bool:
    line = select.poll()
    line.register(connection, select.POLLIN)
    return bool(line.poll(milliseconds))


def watch_from_there(connection: Connection) -> None:
    """Let the server notice soon when this link is cut."""
    connection.execute(_WATCH)


def _read_only(shown: str) -> StoreError:
    return StoreError(f"{shown} is read-only: is it a standby? Name the server that takes writes")


def explain(problem: psycopg.Error, shown: str) -> StoreError | BadInput | NotFound:
    """An error of PostgreSQL in words that say what to do."""
    errors, text = psycopg.errors, in_one_line(problem)
    match problem:
        case errors.DeadlockDetected() | errors.SerializationFailure() | errors.UniqueViolation():
            return Contended(f"{shown}: {text}; nothing was changed")
        case errors.LockNotAvailable():
            return StoreError(f"{shown}: waited too long for others: is a transaction left open? nothing was changed")
        case errors.InsufficientPrivilege():
            return NotAllowed(f"{shown}: {text}; `rota migrate --roles` makes roles with the rights")
        case errors.ReadOnlySqlTransaction():
            return _read_only(shown)
        case errors.FeatureNotSupported() if "during recovery" in text:  # a standby, which begins no such transaction
            return _read_only(shown)
        case errors.DiskFull():
            return StoreFull(f"the disk of {shown} is full: nothing was changed; make room and try again")
        case errors.InvalidSchemaName() | errors.UndefinedTable():
            return NotFound(f"{shown} has no database of rota, or lost part of it: {text}; `rota init` makes one")
        case errors.QueryCanceled():
            return StoreError(f"{shown}: {text}; nothing was changed")
        case psycopg.OperationalError() if is_away(problem):
            return StoreAway(f"{shown} is out of reach: {text}")
        case psycopg.DataError():
            return BadInput(f"PostgreSQL cannot keep this: {text}")
    return StoreError(f"{shown}: {text}")


def is_away(problem: psycopg.Error) -> bool:
    """Whether the server is gone or was about to go, rather than that it refused a statement."""
    state = problem.sqlstate or ""
    return not state or state[:2] == "08" or state[:3] == "57P" or state in ("25P03", "53300")


def in_one_line(problem: object) -> str:
    """The text of an error without its line ends, and not endless; of a server's error its first sentence."""
    primary = problem.diag.message_primary if isinstance(problem, psycopg.Error) else None
    text = " ".join((primary or str(problem)).split())
    return text if len(text) <= 400 else f"{text[:399]}…"


def _option(url: str) -> str | None:
    return dict(parse_qsl(url.partition("?")[2], keep_blank_values=True)).get("schema")


def without_schema(url: str) -> str:
    if "schema=" not in url:
        return url
    # Not `urlunsplit`, which makes postgresql:/jobs of postgresql:///jobs.
    place, _, query = url.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "schema"]
    return f"{place}?{urlencode(kept, quote_via=quote)}" if kept else place


def with_schema(url: str, schema: str) -> str:
    """The same URL, with this schema instead of any that it names."""
    plain = without_schema(url)
    return f"{plain}{'&' if '?' in plain else '?'}schema={schema}"
