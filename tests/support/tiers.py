"""Which tests run when: `./dev test --fast` while one works, `./dev test` before a change lands, `--deep` now and then.

Above the store, a test that runs on each store runs on SQLite alone, except where SQL or locking decides what it
proves: such a test or its module is marked `both_stores`. In the deep tier all run on both.

A test belongs to the fast tier unless it needs a crew of real processes, a PostgreSQL server or a browser. The folder,
the module (`pytestmark = pytest.mark.crew`) or the test says so; a test that runs on each store needs PostgreSQL where
that is its parameter. Who forgets is stopped: in the fast tier neither a server nor a crew starts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

DEEP, FAST = "ROTA_DEEP", "ROTA_FAST"  # set by ./dev test --deep and --fast
NOT_FAST = ("crew", "postgres", "browser")
FOLDERS = {
    **dict.fromkeys(("chaos", "deploy", "e2e", "faults", "orchestrator", "races", "worker/inprocess"), "crew"),
    "tracking": "postgres",
    "web": "browser",
}
# A file is one process's; what takes longest is begun first, so that all processes end at about the same time.
LONG_FIRST = (
    "chaos",
    "e2e",
    "races",
    "orchestrator",
    "faults",
    "web",
    "model",
    "deploy",
    "tracking",
    "docs",
    "bench",
    "mcp",
)
ABOVE_THE_STORE = {"app", "e2e", "faults", "live", "orchestrator", "top", "worker"}
READ_BY_BOTH = {"worker/sources"}  # queries on the user's own SQLite or PostgreSQL


def is_deep() -> bool:
    return os.environ.get(DEEP) == "1"


def is_fast() -> bool:
    return os.environ.get(FAST) == "1"


def times(usual: int, deep: int) -> int:
    """Return how often a test repeats what depends on chance: `deep` times in the deep tier."""
    return deep if is_deep() else usual


def refuse_in_fast(what: str) -> None:
    """Fail a test that needs more than the fast tier has and lacks the mark for it."""
    assert not is_fast(), f"{what} in the fast tier: mark the test or its module as one of {', '.join(NOT_FAST)}"


def select(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests of the current tier, long ones first, and the others."""
    ids = {item.nodeid for item in items}
    wanted: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        marks = _marks(item, ids)
        is_left = ("deep" in marks and not is_deep()) or (is_fast() and not marks.isdisjoint(NOT_FAST))
        (left if is_left else wanted).append(item)
    return sorted(wanted, key=_turn), left


def _turn(item: pytest.Item) -> int:
    folders = _folders(item)
    return next((place for place, folder in enumerate(LONG_FIRST) if folder in folders), len(LONG_FIRST))


def _folders(item: pytest.Item) -> set[str]:
    """Return the folders of a test: for `tests/store/jobs/test_x.py` both `store` and `store/jobs`."""
    parts = item.path.relative_to(item.config.rootpath / "tests").parent.parts
    return {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}


def _marks(item: pytest.Item, ids: set[str]) -> set[str]:
    """Return the marks of a test: its own, those of its folder and that of its store."""
    marks = {mark.name for mark in item.iter_markers()}
    folders = _folders(item)
    marks |= {FOLDERS[folder] for folder in folders & FOLDERS.keys()}
    call = getattr(item, "callspec", None)
    if call is not None and any(
        isinstance(value, str) and ("postgres" in value or value == "psycopg") for value in call.params.values()
    ):
        marks.add("postgres")
        has_twin = item.nodeid.replace("postgres", "sqlite") in ids
        is_above = folders & ABOVE_THE_STORE and not folders & READ_BY_BOTH
        if has_twin and is_above and "both_stores" not in marks:
            marks.add("deep")
    return marks
