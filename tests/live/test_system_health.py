"""The system's health in one word, and how long what waits will take."""

from __future__ import annotations

import pytest

from rota.live.system_health import DEGRADED, ERROR, HEALTHY, Place, average, eta, health


def place(status: str, n: int = 0, queue: str = "tag", watched: bool = True, reason: str | None = None) -> Place:
    return Place(f"worker:{queue}:{n}", queue, status, watched, reason)


@pytest.mark.parametrize(
    ("places", "status", "errors"),
    [
        ([], HEALTHY, []),
        ([place("up"), place("starting", 1)], HEALTHY, []),
        ([place("empty", watched=False), place("failed", 1, watched=False)], HEALTHY, []),
        ([place("up"), place("backoff", 1)], DEGRADED, ["worker:tag:1 waits to be started again"]),
        ([place("up"), place("failed", 1, reason="died often")], DEGRADED, ["worker:tag:1 has failed: it died often"]),
        ([place("up"), place("failed", 1)], DEGRADED, ["worker:tag:1 has failed"]),
        ([place("up"), place("empty", queue="scan")], ERROR, ["queue scan has no live worker"]),
        (
            [place("backoff")],
            ERROR,
            ["queue tag has no live worker", "worker:tag:0 waits to be started again"],
        ),
    ],
)
def test_the_worst_that_can_be_said_is_said(places: list[Place], status: str, errors: list[str]) -> None:
    assert health(places) == (status, errors)


def test_an_estimate_is_shared_by_those_who_work() -> None:
    assert average(0, 0) == 0.0 and average(4, 6_000_000) == 1.5
    assert eta(10, 1.5, 0) == eta(10, 1.5, 1) == 15.0 and eta(10, 1.5, 3) == 5.0
