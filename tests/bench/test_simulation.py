"""The simulation behaves as queues do, whatever the costs: it is reckoned with in the docs."""

from __future__ import annotations

import pytest

from benchmarks.load import arrivals, ideal_waits
from benchmarks.simulation import Costs, bend, costs_of, document, lost_in_noise, rows, simulate
from docs.pages.performance import page_of
from tests.bench.runs import whole

pytestmark = pytest.mark.crew

COSTS = Costs(exchange=0.0008, job=0.00003, host=0.001, host_job=0.00003, sync=0.0003, wal_job=1000)


def play(hosts: int, job: float = 0.1, cores: int = 8, costs: Costs = COSTS) -> tuple[float, float, float]:
    found = simulate(costs, hosts, job, cores, workers=4, round_trip=0.0005)
    return found.jobs_per_second, found.busy, found.server


def test_the_same_world_is_played_the_same_way_twice() -> None:
    assert play(8) == play(8)


def test_far_from_its_limit_a_server_carries_twice_the_hosts_at_twice_the_rate() -> None:
    (one, busy, _), (two, _, _) = play(4), play(8)
    assert two == pytest.approx(2 * one, rel=0.05)
    assert busy > 0.9


def test_no_more_jobs_are_done_than_workers_have_time_for() -> None:
    for hosts in (1, 16, 256):
        rate, _, _ = play(hosts)
        assert rate <= hosts * 4 / 0.1 * 1.02


def test_a_server_is_never_busier_than_its_cores_and_more_cores_never_carry_less() -> None:
    few, many = play(400, job=0.01, cores=1), play(400, job=0.01, cores=8)
    assert few[2] <= 1.05 and few[1] < 0.9
    assert many[0] > 2 * few[0]


def test_slower_statements_bend_it_sooner() -> None:
    slow = COSTS.replace(exchange=COSTS.exchange * 8, job=COSTS.job * 8)
    soon, late = (bend(costs, 0.1, 2, 4, 0.0005)[0].hosts for costs in (slow, COSTS))
    assert soon < late


def test_past_its_limit_exchanges_carry_more_jobs_each() -> None:
    calm, crowded = (simulate(COSTS, hosts, 0.1, 1, 4, 0.0005).batch for hosts in (2, 200))
    assert crowded > 2 * calm


def test_costs_are_those_that_a_run_measured() -> None:
    costs = costs_of(whole())
    assert costs is not None
    assert costs.exchange + costs.job + costs.sync == pytest.approx(1 / 900)
    assert costs.exchange + 100 * costs.job + costs.sync == pytest.approx(100 / 22_000)
    assert costs_of({"parts": {}}) is None


def test_a_cost_that_came_out_as_nothing_is_never_reckoned_as_nothing_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchmarks.simulation.LENGTHS", (0.1,))
    monkeypatch.setattr("benchmarks.simulation.MOST_HOSTS", 4)
    run = whole()
    for row in run["parts"]["rows postgres"]["rows"]:
        row["rota"] = row["raw"]  # as if an orchestrator cost nothing
    costs = costs_of(run)
    assert costs is not None and costs.host > 0 and costs.host_job > 0
    told = {name: getattr(costs, name) for name in Costs.__annotations__}
    assert lost_in_noise(told) == ["host", "host_job"]
    assert "Lost in the noise of this run" in page_of({**run, "simulation": document(run)})


def test_longer_jobs_take_less_of_the_server_for_each_worker() -> None:
    short, long = (bend(COSTS, job, 2, 4, 0.0005)[0] for job in (0.1, 1.0))
    assert long.server / long.workers < short.server / short.workers


def test_without_figures_there_is_no_estimate() -> None:
    assert document({"parts": {}}) == {}


def test_the_table_has_a_line_for_each_length_of_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.simulation.LENGTHS", (0.1, 1.0))
    monkeypatch.setattr("benchmarks.simulation.MOST_HOSTS", 4)
    found = rows(document(whole()))
    assert [row["jobs of"] for row in found] == ["100 ms", "1 s"]
    assert all(row["past it"] == "not reached" for row in found)


def test_ideal_workers_let_nobody_wait_who_need_not() -> None:
    assert ideal_waits([0.0, 1.0, 2.0], 1, 0.5) == [0.0, 0.0, 0.0]
    assert ideal_waits([0.0, 0.0, 0.0], 2, 1.0) == [0.0, 0.0, 1.0]


def test_arrivals_come_at_the_rate_that_is_asked_for_and_the_same_each_time() -> None:
    came = arrivals(2000, 100)
    assert came == arrivals(2000, 100) == sorted(came)
    assert came[-1] == pytest.approx(20, rel=0.1)
