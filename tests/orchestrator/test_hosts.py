"""Several hosts on one PostgreSQL: the work of one that vanishes moves on, and any can be seen and scaled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rota.core.times import SECOND
from tests.support.eventually import eventually
from tests.support.hosts import Hosts
from tests.support.stores import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("north", "south")


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    hosts = Hosts(tmp_path, url_of("postgres", tmp_path))
    yield hosts
    hosts.end()


def test_the_work_of_a_host_that_vanishes_moves_on(hosts: Hosts) -> None:
    """Within 16 s, its lease and a moment; nothing is lost, and nothing is settled twice."""
    crew = hosts.crew
    for name in NAMES:
        hosts.start(name)
    eventually(lambda: hosts.up() == list(NAMES), within=60)
    held = [crew.add("hold", name="a"), crew.add("hold", name="b")]
    eventually(lambda: [job.status for job in map(crew.app.jobs.get, held)] == ["active"] * 2, within=60)
    lost = next(job for job in map(crew.app.jobs.get, held) if hosts.host_of(job.worker_id) == "north")
    for name in "ab":
        eventually(lambda name=name: crew.held_by(name), within=60)  # type: ignore[misc]
    vanished_at = crew.app.store.now()
    hosts.vanish("north")
    kept = next(id for id in held if id != lost.id)
    for name in "ab":
        crew.let_go(name)
    assert hosts.host_of(crew.done(kept)[0].worker_id) == "south"
    (done,) = crew.done(lost.id)
    assert hosts.host_of(done.worker_id) == "south"
    assert [run.verb for run in crew.app.claims.runs(lost.id)] == ["die", "finish"]
    (again,) = [run for run in crew.app.claims.runs(lost.id) if run.verb == "finish"]
    assert again.claimed_at - vanished_at < 16 * SECOND
    (death,) = crew.deaths()
    assert death.reason == "lost"
    jobs = [crew.add("tag", n=n) for n in range(10)]
    assert {hosts.host_of(job.worker_id) for job in crew.done(*jobs)} == {"south"}
    assert "north" not in "".join(line for line in hosts.status().splitlines() if line.startswith("running"))


def test_every_host_is_shown_and_any_can_be_scaled(hosts: Hosts) -> None:
    for name in NAMES:
        hosts.start(name)
    eventually(lambda: hosts.up() == list(NAMES), within=60)
    hosts.crew.call("scale", "tag=2", "--host", "south")
    eventually(lambda: hosts.up() == ["north", "south", "south"], within=60)
    page = hosts.status().splitlines()
    assert page[0] == "orchestrator stopped"
    assert sorted(line.split(",")[0] for line in page[1:3]) == ["running on north", "running on south"]
    shown = json.loads(hosts.status("--json"))["orchestrators"]
    assert sorted((each["hostname"], each["crew"]) for each in shown) == [("north", "main"), ("south", "main")]
    assert len({each["host_id"] for each in shown}) == 2
    ours = next(each["host_id"] for each in shown if each["hostname"] == "north")
    hosts.crew.call("scale", "tag=0", "--host", ours)
    eventually(lambda: hosts.up() == ["south", "south"], within=60)
    told = hosts.crew.call("scale", "tag=2", "--host", "west", code=3)
    assert "no orchestrator has run on a host west; there are orchestrators on: north, south" in told
    hosts.crew.call("drain", "--host", "north")
    eventually(lambda: "running on north" not in hosts.status(), within=60)
