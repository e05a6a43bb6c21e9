"""How a database would run the query of a source: full scans, missing rights, and the index that would help."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from rota.core.record import Record
from rota.worker.sources.sql_source import APSW, SQLITE3, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.worker.sources.sql_source import SqlSource

_WORD = re.compile(r"'(?:[^']|'')*'|\"([^\"]+)\"|([A-Za-z_][A-Za-z0-9_]*)")
_WHERE = re.compile(r"\bWHERE\b(.*?)(?:\bGROUP\s+BY\b|\bORDER\s+BY\b|\bLIMIT\b|$)", re.IGNORECASE | re.DOTALL)
_ORDER = re.compile(r"\bORDER\s+BY\b(.*?)(?:\bLIMIT\b|$)", re.IGNORECASE | re.DOTALL)
_SCAN = re.compile(r"^SCAN (?:TABLE )?(\S+)")
# Conditions of PostgreSQL for which an index on their columns is no use; and string literals.
_UNSERVED = re.compile(r"IS (?:NOT )?DISTINCT FROM|<>|!?~~?\*?|\bSubPlan\b")
_TEXT = re.compile(r"'(?:[^']|'')*'")
DENIED = "42501"


class Plan(Record):
    """The lines of a plan, its full scans, the index that would avoid them, and a missing right."""

    lines: list[str]
    scans: list[str]
    index: str | None
    denied: str | None = None


def explain(source: SqlSource, connection: Any) -> Plan | None:
    """Explain the query of a source; None if its database is neither SQLite nor PostgreSQL."""
    match kind_of(connection):
        case "sqlite3" | "apsw":
            return _explain_sqlite(source, connection)
        case "psycopg":
            return _explain_postgres(source, connection)
        case _:
            return None


def _explain_sqlite(source: SqlSource, connection: Any) -> Plan:
    lines = _plan_of(connection, source)
    names = {str(name).lower(): str(name) for (name,) in _all(connection, _TABLES)}
    scans = [_table(name, source.query, names) for name in _scanned(lines)]
    return Plan(lines, scans, _index_for(source, connection, scans))


_COLUMNS = "SELECT name FROM pragma_table_info(?)"
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_SCHEMA = """SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN ('table', 'index', 'view')
    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type = 'index', type = 'view'"""


def _index_for(source: SqlSource, connection: Any, scans: Sequence[str]) -> str | None:
    """Return the first index that removes all full scans, tried on an empty copy of the schema."""
    import sqlite3

    for table in scans:
        names = [str(name) for (name,) in _all(connection, _COLUMNS, table)]
        for columns in candidates(source.query, names):
            index = statement(table, columns)
            copy = sqlite3.connect(":memory:")
            try:
                for (text,) in _all(connection, _SCHEMA):
                    copy.execute(text)
                copy.execute(index)
                if not _scanned(_plan_of(copy, source)):
                    return index
            except sqlite3.Error:
                return None
            finally:
                copy.close()
    return None


def candidates(query: str, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield columns for an index: those that the query filters by, with and without those it sorts by."""
    filtered, sorted_by = _named(_WHERE, query, names), _named(_ORDER, query, names)
    both = tuple(dict.fromkeys((*filtered, *sorted_by)))
    for columns in dict.fromkeys((both, filtered, *((name,) for name in filtered))):
        if filtered and columns:
            yield columns


def statement(table: str, columns: Sequence[str]) -> str:
    name = re.sub(r"\W", "_", "_".join((table, *columns)).lower())
    return f"CREATE INDEX {name} ON {_quoted(table)} ({', '.join(map(_quoted, columns))})"


def _quoted(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?", name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def _named(part: re.Pattern[str], query: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that a part of the query names, in its order."""
    match = part.search(query)
    return _columns_in(match.group(1), names) if match else ()


def _columns_in(text: str, names: Sequence[str]) -> tuple[str, ...]:
    by_name = {name.lower(): name for name in names}
    words = ((quoted or word).lower() for quoted, word in _WORD.findall(text))
    return tuple(dict.fromkeys(by_name[word] for word in words if word in by_name))


def _table(shown: str, query: str, names: dict[str, str]) -> str:
    """Return the table that a plan names, perhaps by its alias."""
    if shown.lower() in names:
        return names[shown.lower()]
    match = re.search(rf'\b(?:FROM|JOIN|,)\s*"?(\w+)"?\s+(?:AS\s+)?{re.escape(shown)}\b', query, re.IGNORECASE)
    return names.get(match.group(1).lower(), shown) if match else shown


def _scanned(lines: Sequence[str]) -> list[str]:
    """Return the tables that a plan of SQLite scans fully."""
    matches = (_SCAN.match(line) for line in lines if " VIRTUAL TABLE " not in line and "CONSTANT ROW" not in line)
    return [match.group(1) for match in matches if match]


def _plan_of(connection: Any, source: SqlSource) -> list[str]:
    params = source.params if kind_of(connection) in (SQLITE3, APSW) else ()
    cursor = connection.cursor()
    return [str(row[3]) for row in cursor.execute(f"EXPLAIN QUERY PLAN {source.query}", params)]


def _all(connection: Any, text: str, *params: str) -> list[tuple[Any, ...]]:
    return list(connection.cursor().execute(text, params))


def _explain_postgres(source: SqlSource, connection: Any) -> Plan:
    """Explain the query twice, the second time without sequential scans: what is still scanned has no fitting index."""
    cursor = connection.cursor()
    try:
        with connection.transaction(force_rollback=True):
            lines = [str(row[0]) for row in cursor.execute(f"EXPLAIN {source.query}", source.params or None)]
            # Local to this transaction, which is rolled back: no query runs with this setting.
            cursor.execute("SELECT set_config('enable_seqscan', 'off', true)")
            ((document,),) = cursor.execute(f"EXPLAIN (FORMAT JSON, VERBOSE) {source.query}", source.params or None)
    except Exception as problem:
        if getattr(problem, "sqlstate", None) == DENIED:
            return Plan([], [], None, str(problem).splitlines()[0])
        raise
    plan = json.loads(document) if isinstance(document, str) else document
    nodes = [node for node in _nodes(plan[0]["Plan"]) if _reads_all(node)]
    index = next(filter(None, (_index_of(connection, node) for node in nodes)), None)
    return Plan(lines, [_relation(node) for node in nodes], index)


def _index_of(connection: Any, node: dict[str, Any]) -> str | None:
    rows = connection.cursor().execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
        (node.get("Schema"), node["Relation Name"]),
    )
    columns = _columns_in(_served(str(node.get("Filter", ""))), [str(name) for (name,) in rows])
    return statement(_relation(node), columns) if columns else None


def _served(filter: str) -> str:
    """Return the conditions of a filter for which an index is of use; none if one of several alternatives is not."""
    conditions = _TEXT.sub("''", filter).split(" AND ")
    served = [condition for condition in conditions if not _UNSERVED.search(condition)]
    is_whole = len(served) == len(conditions) or " OR " not in filter
    return " AND ".join(served) if is_whole else ""


def _reads_all(node: dict[str, Any]) -> bool:
    """Whether a node of a plan reads a whole table, or a whole index."""
    return "Relation Name" in node and "Index Cond" not in node and "Recheck Cond" not in node


def _relation(node: dict[str, Any]) -> str:
    schema, name = node.get("Schema"), str(node["Relation Name"])
    return name if schema in (None, "public") else f"{schema}.{name}"


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)
