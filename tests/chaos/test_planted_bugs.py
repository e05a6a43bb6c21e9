"""The checker is tested with a real storm: whatever is changed behind rota's back afterwards must be found.

Bugs in rota's own code that the small storm must find are planted by `./dev planted`: `tests/planted/storm.toml`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from rota.lab.chaos.invariants import check, replay_of
from rota.lab.chaos.lab_crew import LabCrew
from rota.lab.chaos.plan import KILL_API, KILL_BUSY, TERMINATE, Fault, Options, draw
from rota.lab.chaos.scenario import Scenario
from rota.lab.chaos.snapshot import take
from rota.settings import Settings
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.lab.chaos.snapshot import Snapshot

ROOT = Path(__file__).parents[2]
OPTIONS = Options(seed=3, jobs=60, minutes=0.04, workers=2, faults=2, others=False)

DOUBLED = """
from rota.lab.chaos import handlers as storm

app, begin = storm.app, storm.begin


def twice(ctx):
    begin(ctx)
    begin(ctx)


storm.begin = twice
"""
NEVER_BEGINS = """
from rota.lab.chaos import handlers as storm

app = storm.app
storm.begin = lambda ctx: None
"""

BEHIND_ITS_BACK = {
    "I6 a second commit": """INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb)
        SELECT token + 1000000, job, worker, attempt + 1, generation, claimed_at, ended_at, verb FROM run
        WHERE verb = 'finish' LIMIT 1""",
    "I6 a commit by another worker": """UPDATE run SET worker = 'worker-zzzzzzzz'
        WHERE token = (SELECT max(token) FROM run WHERE verb = 'finish')""",
    "I6 a job that is done by nobody": """DELETE FROM run
        WHERE token = (SELECT max(token) FROM run WHERE verb = 'finish')""",
    "I22 a job that is gone": "DELETE FROM job WHERE id = (SELECT max(id) FROM job WHERE status = 'done')",
    "I5 a job that is not over": """UPDATE job SET status = 'ready'
        WHERE id = (SELECT max(id) FROM job WHERE status = 'done')""",
    "I23 an event that is gone": """DELETE FROM event
        WHERE id = (SELECT max(id) FROM event WHERE facts LIKE '%"finish"%')""",
    "I9 a certificate that is gone": "DELETE FROM certificate WHERE signal = 9",
    "I15 a quarantine that did not happen": "UPDATE job SET deaths = 2 WHERE deaths = 3",
    "I13 a claim that is left": """UPDATE job SET status = 'active'
        WHERE id = (SELECT max(id) FROM job WHERE status = 'done')""",
}


@contextmanager
def storm(
    crew: LabCrew, options: Options = OPTIONS, within: float = 30.0, say: Callable[[str], None] = lambda text: None
) -> Iterator[Scenario]:
    made = Scenario(crew, draw(options, (KILL_BUSY, TERMINATE)), say, within)
    try:
        yield made
    finally:
        made.close()
        crew.close()


def found(snapshot: Snapshot) -> set[str]:
    return {violation.invariant for violation in check(snapshot, replay_of(snapshot))}


@pytest.fixture(scope="module")
def blown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Snapshot]:
    """A real storm that is over, and on which everything holds."""
    folder = tmp_path_factory.mktemp("storm")
    with storm(LabCrew(str(folder), OPTIONS.shape)) as blowing:
        snapshot = blowing.run()
    assert found(snapshot) == set()
    return folder, snapshot


@pytest.mark.parametrize("bug", BEHIND_ITS_BACK)
def test_a_change_behind_rotas_back_is_found(bug: str, blown: tuple[Path, Snapshot], tmp_path: Path) -> None:
    folder, snapshot = blown
    for file in folder.glob("rota.db*"):
        shutil.copy(file, tmp_path)
    connection = apsw.Connection(str(tmp_path / "rota.db"))
    connection.execute(BEHIND_ITS_BACK[bug])
    assert connection.changes() > 0, f"nothing to change any more: plant {bug!r} anew"
    connection.close()
    with open_store(str(tmp_path / "rota.db"), Settings()) as store:
        changed = take(store, snapshot.plan, snapshot.ledger, snapshot.watch, snapshot.remains, str(tmp_path))
    assert bug.split()[0] in found(changed)


def test_a_handler_that_begins_twice_is_reported_during_the_storm(tmp_path: Path) -> None:
    said: list[str] = []
    snapshot = with_app(tmp_path, DOUBLED, said.append)
    assert {"I1", "I2"} <= found(snapshot)
    at = [each.at for each in snapshot.watch.violations if each.invariant == "I1"]
    assert at and at == sorted(at, key=lambda moment: moment or 0.0)
    told = next(n for n, text in enumerate(said) if text.startswith("violated after ") and ": I1: job " in text)
    assert told < said.index("the storm is over: working off the queue")


def test_a_commit_of_a_handler_that_never_began_is_found(tmp_path: Path) -> None:
    assert "I6" in found(with_app(tmp_path, NEVER_BEGINS))


def test_the_small_storm_finds_nothing_in_unchanged_sources(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.chaos.planted", str(tmp_path)]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [], ran.stderr


def test_a_process_left_behind_is_found_and_ended_with_the_storm(tmp_path: Path) -> None:
    crew = LabCrew(str(tmp_path), OPTIONS.replace(jobs=5).shape)
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(words, env=crew.environment) as left:
        with storm(crew, OPTIONS.replace(jobs=5, faults=0, minutes=0.005)) as blowing:
            snapshot = blowing.run()
        assert left.wait(30) == -9
    assert str(left.pid) in snapshot.remains.processes[0]
    assert found(snapshot) == {"I13"}


def test_an_api_that_is_killed_twice_in_a_row_runs_once_and_leaves_nothing(tmp_path: Path) -> None:
    options = Options(seed=3, jobs=20, minutes=0.1, workers=1, faults=0)
    twice = tuple(Fault(at, KILL_API, 0.5, lasts=400_000) for at in (4_000_000, 4_100_000))
    crew = LabCrew(str(tmp_path), options.shape)
    blowing = Scenario(crew, draw(options).replace(faults=twice), lambda text: None, 60.0)
    try:
        snapshot = blowing.run()
    finally:
        blowing.close()
        crew.close()
    assert [fault.kind for fault in snapshot.ledger.faults] == [KILL_API] * 2
    assert found(snapshot) == set() and snapshot.remains.processes == ()


def with_app(folder: Path, text: str, say: Callable[[str], None] = lambda text: None) -> Snapshot:
    """A storm with another application, found from the crew's folder."""
    (folder / "planted.py").write_text(text)
    with storm(LabCrew(str(folder), OPTIONS.shape, "planted:app"), say=say) as blowing:
        return blowing.run()
