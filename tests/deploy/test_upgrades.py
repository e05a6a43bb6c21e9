"""Upgrades: what a running crew and its callers see when a newer rota has brought the database to a newer schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from rota.store.migrate import LATEST
from tests.support.crews import Crew
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.end()


def move_on(crew: Crew, oldest: int) -> None:
    """What a newer rota does when it opens the database."""
    with apsw.Connection(str(crew.folder / ".rota" / "rota.db")) as connection:
        connection.set_busy_timeout(10_000)
        connection.execute("INSERT INTO migration VALUES (?, 'next', ?, 0)", (LATEST + 1, oldest))
        connection.execute(f"PRAGMA user_version = {LATEST + 1}")


def test_a_crew_that_runs_goes_on_beside_a_newer_schema_and_what_starts_is_told_to_upgrade(crew: Crew) -> None:
    crew.start("tag=1")
    held, waiting = crew.add("hold", name="a"), crew.add("tag", n=1)
    eventually(lambda: crew.held_by("a"))
    move_on(crew, oldest=LATEST)
    crew.let_go("a")
    assert [job.status for job in crew.done(held, waiting)] == ["done", "done"]
    assert "upgrade it to begin" in crew.call("add", "late", code=1)
    assert "done" in crew.call("show", str(held))
    assert crew.stop() == 0
    assert "upgrade it to begin" in crew.call("orchestrator", "start", "--app", "shop:app", code=1)


def test_code_that_is_older_than_the_oldest_allowed_is_refused(crew: Crew) -> None:
    crew.add("tag", n=1)
    move_on(crew, oldest=LATEST + 1)
    assert "upgrade" in crew.call("list", code=1)
