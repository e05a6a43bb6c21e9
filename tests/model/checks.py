"""The invariants that are read off the tables after every step, each by its number in the list of faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from rota.core import job as jobs
from rota.core.event import JobMoved

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.model.ledger import Ledger
    from tests.support.clock import FakeClock
    from tests.support.stores import Reader

_JOBS = "SELECT id, queue, status, priority, token, worker, orchestrator, limit_key, due_at FROM job ORDER BY id"
_LIVE = "SELECT id FROM worker WHERE status NOT IN ('stopped', 'dead')"
_LIVE_ORCHESTRATORS = "SELECT id FROM orchestrator WHERE status <> 'stopped'"
_FINISHES = "SELECT job, generation, count(*) FROM run WHERE verb = 'finish' GROUP BY job, generation"
_LIMITS = "SELECT name, per_key FROM queue WHERE per_key IS NOT NULL"
REPLAY_EVERY = 10  # steps: the log grows with each of them


class Checks(RuleBasedStateMachine):
    """Reads the tables by plain SQL, never through the code under test."""

    store: Store
    read: Reader
    ledger: Ledger
    clock: FakeClock

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[tuple[Any, ...]]] = {}
        self.steps = 0

    def look(self) -> None:
        """The tables as they stand; nobody writes meanwhile."""
        texts = {"job": _JOBS, "live": _LIVE, "crews": _LIVE_ORCHESTRATORS, "finishes": _FINISHES, "limits": _LIMITS}
        self.tables = {name: self.read.rows(text) for name, text in texts.items()}

    def newest_event(self) -> int:
        return int(self.read.rows("SELECT coalesce(max(id), 0) FROM event")[0][0])

    def counts(self) -> list[tuple[Any, ...]]:
        return self.store.database.execute("tally.all", {})

    def check_order(self, claimed: list[int]) -> None:
        """I25: within a queue and priority, jobs are claimed in the order of their ids among those that are ready."""
        place = {row[0]: (row[1], -row[3], row[0]) for row in self.tables["job"]}
        ready = [place[row[0]] for row in self.tables["job"] if row[2] == jobs.READY]
        for id in claimed:
            better = [other for other in ready if other[0] == place[id][0] and other < place[id]]
            assert not better, f"I25: job {id} was claimed before {better}"
        in_order = [place[id] for id in claimed]
        assert in_order == sorted(in_order), f"I25: handed out in the order {in_order}"

    @invariant()
    def i1_at_most_one_live_claim_per_job(self) -> None:
        """I1: the claim in a job's row is the one that its last claimant was answered with."""
        for id, _, status, _, token, worker, *_ in self.tables.get("job", []):
            held = self.ledger.holders.get(id)
            if status == jobs.ACTIVE:
                assert held is not None, f"I1: job {id} is active, and nobody was answered with it"
                assert (held.token, held.worker) == (token, worker), f"I1, I2: job {id}: {held}, and not token {token}"
            else:
                assert held is None, f"I1: {held} believes in job {id}, which is {status}"

    @invariant()
    def i3_active_if_and_only_if_claimed_by_an_existing_worker(self) -> None:
        """I3: an active job has a token and a living worker, and if it is watched, a living orchestrator."""
        live = {id for (id,) in self.tables.get("live", [])}
        crews = {id for (id,) in self.tables.get("crews", [])}
        for id, _, status, _, token, worker, orchestrator, *_ in self.tables.get("job", []):
            if status == jobs.ACTIVE:
                assert token is not None and worker in live, f"I3: job {id} is active with {worker}"
                assert orchestrator is None or orchestrator in crews, f"I3: job {id} hangs on {orchestrator}"

    @invariant()
    def i5_accepted_jobs_are_all_there_and_counted(self) -> None:
        """I5: accepted enqueues are the sum over states, and the kept counters are the true counts."""
        rows = self.tables.get("job", [])
        assert {row[0] for row in rows} == set(self.ledger.needs), "I5: accepted and stored jobs differ"
        true: dict[tuple[str, str], int] = {}
        for _, queue, status, *_ in rows:
            true[queue, status] = true.get((queue, status), 0) + 1
        kept = {(queue, status): n for queue, status, n in self.counts() if n}
        assert kept == true, f"I5: kept {kept}, true {true}"

    @invariant()
    def i6_at_most_one_finish_per_job_and_generation(self) -> None:
        """I6: as the runs tell it, and the same as the log told."""
        finishes = {(job, generation): n for job, generation, n in self.tables.get("finishes", [])}
        assert all(n == 1 for n in finishes.values()), f"I6: {finishes}"
        assert set(finishes) == self.ledger.finished, f"I6: runs {finishes}, log {self.ledger.finished}"

    @invariant()
    def i23_what_the_log_has_told_is_the_state_of_all_jobs(self) -> None:
        """I23: none missing, none twice. (Each fact is checked against the one before it as it is read.)"""
        stored = {row[0]: row[2] for row in self.tables.get("job", [])}
        assert stored == self.ledger.states, f"I23: the log told {self.ledger.states}, the tables hold {stored}"
        self.steps += 1
        if self.steps % REPLAY_EVERY == 0:
            assert self.replay() == stored, "I23: a replay of the log differs from the tables"

    def replay(self) -> dict[int, str | None]:
        """The states of all jobs by the log, from its beginning."""
        states: dict[int, str | None] = {}
        for event in self.store.events.after("0", 100_000):
            for move in event.of(JobMoved):
                states.update(dict.fromkeys(move.ids, move.new))
        return states

    @invariant()
    def ready_means_due_and_within_the_limits(self) -> None:
        """I4, I26's ground: nothing is ready before its time, beyond its key's limit, or beyond how many may run."""
        rows = self.tables.get("job", [])
        early = [row[0] for row in rows if row[2] == jobs.READY and row[8] is not None and row[8] > self.clock.now()]
        assert not early, f"ready before their time: {early}"
        for name, per_key in self.tables.get("limits", []):
            admitted: dict[str, list[str]] = {}
            for _, queue, status, _, _, _, _, key, _ in rows:
                if queue == name and key is not None and status in (jobs.READY, jobs.ACTIVE):
                    admitted.setdefault(key, []).append(status)
            for key, states in admitted.items():
                assert len(states) <= per_key or jobs.READY not in states, f"{name} {key}: {states}, limit {per_key}"
