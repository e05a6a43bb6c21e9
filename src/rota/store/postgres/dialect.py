"""The statements as psycopg takes them: the common texts, and those that PostgreSQL has of its own."""

from __future__ import annotations

import re
from os.path import dirname, join
from typing import TYPE_CHECKING

from rota.core.record import Record
from rota.store.engine.statements import Statements, read_statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from rota.store.engine.rows import Row

_CLOCK = "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)"
GAPS = {
    "int64": "BIGINT",
    "identity": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "for_update": "FOR UPDATE",
    "skip_locked": "FOR UPDATE SKIP LOCKED",
    "greatest": "greatest",
    "now": f"coalesce(CAST(:now AS bigint), {_CLOCK})",
    "wall": f"coalesce(CAST(:wall AS bigint), {_CLOCK})",
}
# A look at an index for each row, or an insert, whatever the values and however many rows there are: to plan them anew
# took a third of an exchange's time. What has a limit, or joins, is planned anew: a plan made early would be wrong.
KEPT = frozenset(
    (
        "orchestrator.advance",
        "queue.all",
        "tick.due",
        "tick.next",
        "orchestrator.home",
        "number.get",
        "worker.settled",
        "worker.of_orchestrator",
        "claim.holding",
        "claim.record_done",
        "claim.finish",
        "claim.take_all",
        "worker.exchanged many",
        "queue.get",
        "number.draw_many",
        "job.insert many",
        "tally.add many",
        "metric.add many",
        "event.append",
    )
)
KINDS = ("owner", "enqueue", "worker", "read")
_FOLDER = dirname(__file__)
_NOUNS = ("schema", "log", "role", "server")
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")


def role(schema: str, kind: str) -> str:
    """Return the name of one of a schema's four roles, which the texts of grants have as a gap each."""
    return f"{schema}_{kind}"


def own_texts() -> dict[str, str]:
    """The statements that only PostgreSQL has, or has in a text of its own."""
    own = read_statements(join(_FOLDER, "overrides.sql"))
    for noun in _NOUNS:
        texts = read_statements(join(_FOLDER, f"{noun}.sql"))
        own.update({f"{noun}.{verb}": text for verb, text in texts.items()})
    return own


class Statement(Record):
    """A text as PostgreSQL takes it, with `$1` for the first of the parameters that `names` has.

    `kept`: its plan is the same whatever the values. `prepared`: the server keeps it under a name.
    """

    text: bytes
    names: tuple[str, ...] = ()
    answers: bool = False
    kept: bool = False
    prepared: bool = True


class Texts:
    """Statements by name."""

    def __init__(self, gaps: Mapping[str, str]) -> None:
        self.own = own_texts()
        self._statements = Statements({**GAPS, **gaps}, self.own)
        self._ready: dict[str, Statement] = {}

    def plain(self, name: str) -> str:
        """Return the text of a statement without numbered parameters, for a script."""
        return self._statements.text(name)

    def statement(self, name: str) -> Statement:
        ready = self._ready.get(name)
        if ready is None:
            ready = self._ready[name] = as_statement(self.plain(name), name in KEPT)
        return ready

    def by_name(self, name: str, rows: Iterable[Row]) -> list[dict[str, Any]]:
        """Name the parameters of rows, in the order in which the common text first names them."""
        names = self.statement(name).names
        return [dict(zip(names, row, strict=True)) for row in rows]

    def as_columns(self, name: str, rows: Iterable[Row]) -> dict[str, str]:
        """Make one array of each parameter, for a text that takes many rows at once."""
        columns = map(_array, zip(*rows, strict=True))
        return dict(zip(self.statement(name).names, columns, strict=True))


def as_statement(text: str, kept: bool = False) -> Statement:
    """A text with `:name` for each parameter, as PostgreSQL takes it."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    numbered = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    answers = text.startswith(("SELECT", "WITH")) or "RETURNING" in text
    return Statement(numbered.encode(), names, answers, kept)


def statements_of(script: str) -> list[str]:
    """The statements of a script, one by one, without its comments."""
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    return [statement for statement in "\n".join(lines).split(";") if statement.strip()]


def _array(values: tuple[int | str | None, ...]) -> str:
    """A column as PostgreSQL reads an array; psycopg's own way takes longer than the statement."""
    first = values[0]
    if values.count(first) == len(values):
        items: Iterable[str] = [_item(first)] * len(values)
    elif isinstance(first, int) and None not in values:
        items = map(str, values)
    else:
        items = map(_item, values)
    return "{" + ",".join(items) + "}"


def _item(value: int | str | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "NULL" if value is None else str(value)
