"""SQLite, PostgreSQL and the model driven in step: both databases answer, tell and hold the same after every program.

`./dev test` spends some seconds on them, `--deep` runs 2,000, `./dev model --programs 20000` as many as one likes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.instep import compare_logs, in_step
from tests.model.machine import StoreMachine
from tests.model.reused import reused
from tests.support import budget
from tests.support.tiers import is_deep

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.errors import RotaError
    from rota.store.store import Store

pytestmark = pytest.mark.postgres

PROGRAMS = int(os.environ.get("ROTA_MODEL_PROGRAMS", "2000" if is_deep() else "0"))  # 0: by the clock
STEPS, BATCH, SECONDS = 100, 25, 40
HELD = (
    "SELECT id, queue, status, blocked_on, priority, attempts, generation, deaths, lapses, dependents, due_at, token,"
    " worker, lease_expires_at, renewed_count, finished_at, result, error, note FROM job ORDER BY id",
    "SELECT token, job, worker, attempt, generation, verb, reason, error FROM run ORDER BY token",
    "SELECT name, paused_at, failures FROM queue ORDER BY name",
    "SELECT id, status, current_job, success_count, error_count FROM worker ORDER BY id",
    "SELECT queue, status, sum(n) FROM tally GROUP BY queue, status HAVING sum(n) <> 0 ORDER BY queue, status",
)


class BothMachine(StoreMachine):
    """Everything on both; the tables that are checked at each step are SQLite's, the answers both's."""

    def make_store(self) -> Store:
        self.pair = (super().make_store(), reused("postgres").store(self.clock))
        return in_step(*self.pair)

    def unchanged_when_refused(self, call: Callable[[], object], *errors: type[RotaError]) -> bool:
        refused = super().unchanged_when_refused(call, *errors)
        if refused:
            reused("postgres").draw_on_from(reused("sqlite"))
        return refused

    def teardown(self) -> None:
        compare_logs(*self.pair)
        for text in HELD:
            file, server = (reused(kind).reader.rows(text) for kind in ("sqlite", "postgres"))
            assert file == server, f"{text}: {file}, and the other {server}"


def run_programs(name: str, count: int) -> None:
    """Draw and run programs; `name` decides which."""
    # To look for the shortest failure would take many minutes here.
    how = settings(max_examples=count, stateful_step_count=STEPS, phases=[Phase.generate], database=None)
    machine = type("BothMachine", (BothMachine,), {})
    run_state_machine_as_test(seed(f"{budget.seed()} {name}")(machine), settings=how)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("batch", range(-(-PROGRAMS // BATCH) or 1))
def test_both_databases_answer_tell_and_hold_the_same(batch: int) -> None:
    if PROGRAMS:
        run_programs(str(batch), min(BATCH, PROGRAMS - batch * BATCH))
        return
    for number in budget.rounds(SECONDS):
        run_programs(f"short {number}", 2)
