"""A database that any released schema has made comes to the newest with everything in it, and goes on."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Claim, Done, Released
from rota.core.job import UNKNOWN_KIND
from rota.core.metric import RUN
from rota.settings import Settings
from rota.store.engine import rows as gaps
from rota.store.engine.statements import fill
from rota.store.migrate import LATEST, migrate
from rota.store.open import open_database
from rota.store.postgres import dialect as postgres
from rota.store.sqlite import database as sqlite
from rota.store.store import Store
from tests.support.clock import FakeClock
from tests.support.schemas import HELD, KNOWN, STATES, WORKER, Inside, made_by
from tests.support.stores import STORES, rows, url_of

if TYPE_CHECKING:
    from pathlib import Path

# What each database was told by each migration that was released, on SQLite and on PostgreSQL.
TOLD = {
    1: (
        "491bc122ea952ef5950b6a375a019e2be48f538cdf8e6d9c844d2a4121b88ff4",
        "e7009337fded63419e4140bb270df8ffed17fb7289840eb5f94c4551672db44e",
    ),
    2: (
        "38c8985ecc948ef92ece671b8cd9e7e369ffb86fe74c70d96c05ad9012e407b6",
        "e36bedb788bd7518b242b3f36b1dc9dccb8e563e9fd0a5abdbc54236bb0e24f2",
    ),
    3: (
        "8ea374ed1e6a3e539ac292679f38f7de0a9120cca0a0ea309fbf1e340a98dab7",
        "9bb5eff9fa0b4c7699b7100510d7f76d004fa0ca521463b9a6431246ff8f1e01",
    ),
    4: (
        "fee809663da6bc6389250aa049a607975f39da8b7fee2eca2193e87ca0b4e933",
        "0f39de2bfee2b8796b31aaa122c02b765afe7150c9ab0c734f5fb0354dffa146",
    ),
    5: (
        "8a7190ef82d142e512cc2e3d0d9bbd510f46bdd417bdb532a3fd8d8401aa9af1",
        "d155c5056edc58db6a7087994cfb309bab406ebe2313b982db00d4520726c796",
    ),
    6: (
        "08b5626d578aca49d2db8672dd4fc4187e502a0d3554b9112721b9f40efced11",
        "d23f7a360a99980d6eb5063bead868a9cd4455e934a903e0a745afc106660043",
    ),
    7: (
        "184081a48df5d19ceae3b4772eb9c4ce18e34dfb13c7ddd2eb789f34169b7551",
        "184081a48df5d19ceae3b4772eb9c4ce18e34dfb13c7ddd2eb789f34169b7551",
    ),
    8: (
        "25be94f9c53cbc841c5e5145305a8dbb8c2a37e7b7d0c169bbe6ee42803ef181",
        "1c0b30c6e10dacdaa6c9eda5fd19a3afde3a215662ea62bbd97b78a7b21c8333",
    ),
    9: (
        "29ebcadb618ba90732311013180776c7fe37372a2786298f490d92a0024126d9",
        "69f86adff74693fd93e9942fe8fbd4b255e367d7210d529d5a06489942e14580",
    ),
}
DEFAULTS = """SELECT t.name || '.' || c.name, c.dflt_value FROM sqlite_schema t JOIN pragma_table_info(t.name) c
    WHERE t.type = 'table'"""
CHANGED = """migration {number} tells {kind} something else than it did when it was released, and databases that have it
will not hear of that: leave its file, its `after_{number}` and the states in its checks as they were, and write a
migration that brings databases of every schema to what you want. (Of a new migration: pin {found!r}.)"""


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("number", range(1, LATEST + 1))
def test_what_a_released_migration_tells_a_database_never_changes(number: int, kind: str) -> None:
    found = sha256(told(number, kind).encode()).hexdigest()
    pinned = TOLD.get(number, ("not yet", "not yet"))[STORES.index(kind)]
    assert found == pinned, CHANGED.format(number=number, kind=kind, found=found)


def told(number: int, kind: str) -> str:
    """A migration as this kind of database hears it, and the oldest code that it allows beside it."""
    _, oldest, text = KNOWN[number]
    dialect = sqlite.GAPS if kind == "sqlite" else postgres.GAPS
    after = postgres.own_texts().get(f"schema.after_{number}", "") if kind == "postgres" else ""
    return f"{oldest}\n{fill(text, {**gaps.GAPS, **dialect})}\n{after}"


def test_the_rows_of_old_schemas_fill_every_column_of_every_table(tmp_path: Path) -> None:
    """A column whose rows all have what it has by itself would not tell whether an upgrade keeps what it holds."""
    with made_by(LATEST, url_of("sqlite", tmp_path)) as store, Inside(store) as inside:
        known, by_itself = inside.columns(), dict(inside.rows(DEFAULTS))
        held = inside.contents(known)
    missing = [
        f"{table}.{name}"
        for table, names in known.items()
        for n, name in enumerate(names)
        if not any(
            row[n] is not None and by_itself[f"{table}.{name}"] not in (str(row[n]), repr(row[n]))
            for row in held[table]
        )
    ]
    assert missing == [], "give these a value in tests/support/schemas.py"


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("number", range(1, LATEST))
def test_the_data_of_every_released_schema_is_there_after_the_upgrade_and_goes_on(
    number: int, kind: str, tmp_path: Path
) -> None:
    with made_by(number, url_of(kind, tmp_path)) as old, Inside(old) as inside:
        known = inside.columns()
        before = inside.contents(known)
    database = open_database(url_of(kind, tmp_path), Settings(), clock=FakeClock())
    assert migrate(database) == list(range(number + 1, LATEST + 1))
    with Store(database, Settings(), "new@here") as store, Inside(store) as inside:
        now = inside.contents(known)
        for table, held in before.items():
            assert held and now[table] == held, table
        assert len(before["job"]) == len(STATES)
        carry_on(store)


@pytest.mark.parametrize("kind", STORES)
def test_runs_that_nobody_had_counted_before_the_upgrade_are_counted_by_it(kind: str, tmp_path: Path) -> None:
    """Two that ended since the last look, and one that was open then; not the one that was counted."""
    run = "SELECT {0}, 3, 'w', {0}, 1, 1, 1000001, 'finish'"
    whole = " UNION ALL ".join(run.format(token) for token in (20, 21, 22, 30))
    with made_by(8, url_of(kind, tmp_path)) as old:
        rows(old, "DELETE FROM meter")
        rows(old, f"INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb) {whole}")
        rows(old, "UPDATE meter_mark SET token = 21, open_tokens = '[2, 20, 200]'")
    database = open_database(url_of(kind, tmp_path), Settings(), clock=FakeClock())
    migrate(database)
    with Store(database, Settings(), "new@here") as store:
        found = {(each.name, each.label): (each.n, each.total) for each in store.metrics.counted() if each.name == RUN}
    assert found == {(RUN, "finish"): (3, 3_000_000)}


def carry_on(store: Store) -> None:
    """What was held is settled with its token, what waited goes on, and numbers go on from where they were."""
    store.claims.settle(Claim(HELD, HELD, WORKER, 1, None), Done("1"))
    assert store.jobs.get(HELD).status == "done" and store.jobs.get(3).result == [3]
    claim = store.claims.claim(1)
    assert claim.token > 10
    store.claims.settle(claim, Done())
    assert store.jobs.get(6).status == "ready"
    assert store.jobs.retry(4).generation == 2
    counts = store.queues.counts()["tag"]
    assert (counts["done"], counts["ready"], counts["blocked"]) == (3, 3, 0), "the one that is due too"
    store.claims.settle(store.claims.claim(4), Released(None, UNKNOWN_KIND))
    assert store.jobs.get(4).blocked_on == UNKNOWN_KIND, "a check of the first schema was widened"
