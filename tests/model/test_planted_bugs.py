"""The checker is checked: with each of three bugs planted from outside, the machine must fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rota.core.job import READY
from rota.store.claims.manual import Claims
from rota.store.engine.statements import Statements
from rota.store.jobs import dependencies
from rota.store.workers.orchestrators import Orchestrators
from tests.model.machine import StoreMachine
from tests.support.statements import with_mistake

if TYPE_CHECKING:
    from rota.core.claim import Claim, Outcome
    from rota.store.claims.exchange import Exchange, Report


def run() -> None:
    """The machine, without the search for the shortest failure."""
    run_state_machine_as_test(
        StoreMachine, settings=settings(max_examples=300, phases=[Phase.generate], report_multiple_bugs=False)
    )


def change_statement(monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str) -> None:
    monkeypatch.setattr(Statements, "text", with_mistake(name, old, new))


def test_it_fails_when_settling_does_not_check_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Claims.settle

    def settle(self: Claims, claim: Claim, outcome: Outcome) -> None:
        current = self._store.jobs.get(claim.job_id).token
        right(self, claim.replace(token=current), outcome)

    monkeypatch.setattr(Claims, "settle", settle)
    with pytest.raises(AssertionError, match="I2"):
        run()


def test_it_fails_when_an_exchange_does_not_check_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Orchestrators.exchange

    def exchange(self: Orchestrators, id: int, number: int, report: Report) -> Exchange:
        current = {job: (job, self._store.jobs.get(job).token or 0, outcome) for job, _, outcome in report.outcomes}
        return right(self, id, number, report.replace(outcomes=list(current.values())))

    monkeypatch.setattr(Orchestrators, "exchange", exchange)
    with pytest.raises(AssertionError, match=r"I[26]"):
        run()


def test_it_fails_when_a_job_that_is_claimed_again_keeps_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    change_statement(monkeypatch, "claim.take", "token = :token", "token = coalesce(token, :token)")
    with pytest.raises(AssertionError, match="I2"):
        run()


def test_it_fails_when_a_job_that_nobody_holds_is_blindly_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    def resting(*_: Any) -> tuple[str, None]:
        return READY, None

    monkeypatch.setattr(dependencies, "resting", resting)
    with pytest.raises(AssertionError, match=r"I4|before their time"):
        run()
