"""The comparison, on rota itself and on a system that cannot be installed; no peer is needed for that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from benchmarks.peers import work
from benchmarks.peers.compare import RAW, chosen, compare
from benchmarks.peers.environment import ROOT
from benchmarks.peers.measure import Size
from benchmarks.peers.table import OURS, PEERS, SQLITE, System

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crew

SMALL = Size(jobs=300, add_for=0.2, fill_for=0.2, drain_for=5.0, pickups=3, again_within=30.0)


def test_systems_are_measured_in_turn_and_one_that_cannot_run_is_missing_with_its_reason() -> None:
    broken = System("broken", SQLITE, "huey", ("this is no requirement",), "")
    told: list[str] = []
    rota, missing = compare([OURS[0], broken], SMALL, 1, told.append)
    assert rota["missing"] is None
    assert set(rota["figures"]) == {"enqueue one", "enqueue bulk", "drain 1", "drain 2", "drain 4", "pickup"}
    assert all(figure["median"] > 0 for figure in rota["figures"].values())
    assert 0 < rota["again"] < 30_000
    assert missing["figures"] == {} and missing["missing"].startswith("cannot be installed")
    assert "round 1 of 1: rota on SQLite" in told
    assert any(text.startswith("broken on SQLite is missing: cannot be installed") for text in told)


def test_naming_peers_leaves_out_the_others_but_never_ours_or_the_limits() -> None:
    names = {system.name for system in chosen(["huey", "SAQ"])}
    assert names == {"rota", RAW, "huey", "SAQ"}
    assert len(chosen([])) == len(PEERS) + 4


@pytest.mark.parametrize("system", PEERS, ids=lambda system: system.label)
def test_every_peer_is_pinned_and_has_a_program(system: System) -> None:
    assert system.requirements and all("==" in each for each in system.requirements)
    assert os.path.exists(os.path.join(ROOT, "benchmarks", "peers", "systems", f"{system.module}.py"))
    assert system.durable and system.note


def test_marks_tell_when_where_and_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(work.MARKS, str(tmp_path))
    monkeypatch.setattr(work, "_open", {})
    work.do(f"{work.STAMP} 0")
    work.do(f"{work.STAMP} 1")
    work.do(work.COUNT)
    (first, *_), (second, *_) = found = work.marks(str(tmp_path), work.STAMP)
    assert first < second
    assert [(pid, number) for _, pid, number in found] == [(os.getpid(), 0), (os.getpid(), 1)]
    assert (tmp_path / work.COUNT).read_bytes() == b"."
    assert work.marks(str(tmp_path), work.HOLD) == []
