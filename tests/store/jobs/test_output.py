"""Checkpoints and captured paths: only the holder writes them; a run keeps its own paths and nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Captured, Done, Failed
from rota.core.errors import BadInput, NotFound, Stale, TooLarge
from rota.core.times import HOUR
from rota.store.jobs.output import Output
from tests.support.stores import everything
from tests.support.work import add, claim, register

if TYPE_CHECKING:
    from rota.core.claim import Claim
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def paths(store: Store, job: int) -> list[tuple[str | None, str | None]]:
    return [(run.transcript_path, run.stderr_path) for run in store.claims.runs(job)]


def lost(store: Store, clock: FakeClock) -> Claim:
    """A claim that lapsed and was taken by someone else."""
    job = add(store)
    old = claim(store, job, register(store))
    clock.advance(HOUR)
    store.reconcile()
    claim(store, job)
    return old


def test_a_checkpoint_is_for_the_next_attempt(store: Store) -> None:
    job = add(store)
    first = claim(store, job)
    store.claims.checkpoint(first, {"page": 3})
    store.claims.checkpoint(first, {"page": 4})
    store.claims.release(first)
    assert store.jobs.get(claim(store, job).job_id).checkpoint == {"page": 4}


def test_a_holder_whose_claim_was_lost_writes_neither(store: Store, clock: FakeClock) -> None:
    old = lost(store, clock)
    before = everything(store)
    with pytest.raises(Stale):
        store.claims.checkpoint(old, "late")
    with pytest.raises(Stale):
        store.claims.capture(old, "/late", None)
    assert everything(store) == before


def test_a_checkpoint_is_json_of_bounded_size(store: Store) -> None:
    held = claim(store, add(store))
    store.claims.checkpoint(held, "x" * 262_142)
    with pytest.raises(TooLarge):
        store.claims.checkpoint(held, "x" * 262_143)
    with pytest.raises(BadInput, match="the checkpoint cannot be written as JSON"):
        store.claims.checkpoint(held, object())
    assert store.jobs.get(held.job_id).checkpoint == "x" * 262_142


def test_keeping_a_checkpoint_is_a_beat(store: Store, clock: FakeClock) -> None:
    worker = register(store)
    held = claim(store, add(store), worker)
    clock.advance(HOUR // 100)
    store.claims.checkpoint(held, 1)
    assert store.workers.get(worker).last_heartbeat_at == store.now()


def test_a_run_keeps_the_paths_of_its_own_claim_however_it_ended(store: Store, clock: FakeClock) -> None:
    job = add(store)
    store.claims.capture(claim(store, job, register(store)), "/1.out", "/1.err")
    clock.advance(HOUR)
    store.reconcile()  # lapsed, or its worker was given up
    claim(store, job, register(store))
    clock.advance(HOUR)
    store.reconcile()
    third = claim(store, job)
    store.claims.capture(third, None, "/3.err")
    store.claims.settle(third, Done())
    assert paths(store, job) == [("/1.out", "/1.err"), (None, None), (None, "/3.err")]


@pytest.mark.parametrize("how", ["done", "fail", "cancel", "release", "deregister"])
def test_a_run_keeps_its_paths_whoever_ended_it(store: Store, how: str) -> None:
    worker = register(store)
    held = claim(store, add(store), worker)
    store.claims.capture(held, "/a.out", None)
    match how:
        case "done":
            store.jobs.done(held.job_id)
        case "fail":
            store.claims.settle(held, Failed("no"))
        case "cancel":
            store.jobs.cancel(held.job_id)
        case "release":
            store.claims.release(held)
        case _:
            store.workers.deregister(worker)
    assert paths(store, held.job_id) == [("/a.out", None)]


def test_the_newest_run_is_found_first_and_older_ones_by_name(store: Store) -> None:
    job = add(store)
    with pytest.raises(NotFound, match=f"job {job} has not run yet"):
        store.claims.captured(job)
    first = claim(store, job)
    store.claims.capture(first, "/1.out", None)
    assert store.claims.captured(job) == Captured(first.run_id, "/1.out", None, is_live=True)
    store.claims.release(first)
    assert store.claims.captured(job) == Captured(first.run_id, "/1.out", None)
    second = claim(store, job)
    assert store.claims.captured(job) == Captured(second.run_id, None, None, is_live=True)
    assert store.claims.captured(job, first.run_id).transcript_path == "/1.out"
    with pytest.raises(NotFound, match=f"job {job} has no run-x: its last run is {second.run_id}"):
        store.claims.captured(job, "run-x")


def test_what_rota_kept_of_a_command_is_found_by_its_run_and_pruned_with_it(store: Store, clock: FakeClock) -> None:
    first, second = add(store), add(store)
    held = claim(store, first)
    folder = Path(store.database.runs)
    folder.mkdir()
    for ending in (".out", ".err"):
        (folder / f"{held.run_id}{ending}").touch()
    out, err = (str(folder / f"{held.run_id}{ending}") for ending in (".out", ".err"))
    found = Captured(held.run_id, out, err, is_live=True, is_own=True)
    assert store.claims.captured(first) == found
    store.claims.settle(held, Done())
    assert store.claims.captured(first) == found.replace(is_live=False)
    other = claim(store, second)
    (folder / f"{other.run_id}.out").touch()
    clock.advance(1)
    store.history.prune(older=0)
    assert [path.name for path in folder.iterdir()] == [f"{other.run_id}.out"], "what lives is kept"
    store.claims.capture(other, "/mine", None)
    assert store.claims.captured(second).transcript_path == "/mine", "what the code named comes first"


def test_a_captured_file_is_closed_after_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("said")
    with Output(str(tmp_path / "out"), own=False) as output:
        assert output.size == 4 and output.part(0, 4) == b"said"
    with pytest.raises(OSError):
        output.part(0, 4)
    with Output(str(tmp_path / "missing"), own=False) as missing:
        assert missing.size is None
