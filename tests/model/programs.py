"""What programs do: add, claim, renew and settle by hand, exchange as an orchestrator; in any order, late or twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from rota.core import job as jobs
from rota.core.claim import Done, Failed, Released, Snoozed
from rota.core.errors import Conflict, NothingReady, QueueFull, Refused, RotaError, Stale
from rota.core.orchestrator import LEASE
from rota.core.times import MINUTE, SECOND
from rota.store.jobs.enqueue import NewJob
from tests.model.checks import Checks
from tests.model.ledger import Ledger
from tests.model.reused import reused
from tests.support.clock import FakeClock
from tests.support.work import Crew

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.core.claim import Claim, Outcome
    from rota.store.claims.exchange import Exchange
    from rota.store.store import Store

    Report = tuple[int, int, Outcome]

QUEUES = st.sampled_from(["a", "b"])
WORKERS = st.integers(0, 1)
PICKS = st.integers(0, 99)
LEASES = st.sampled_from([10 * SECOND, MINUTE, 5 * MINUTE])
NOT_KNOWN = Released("no such task", jobs.UNKNOWN_KIND)
OUTCOMES = st.sampled_from(
    [Done("1"), Done("1"), Failed("x"), Failed("x", False), Snoozed(5 * SECOND), Released("n"), NOT_KNOWN]
)
EVERY = 30 * SECOND


class Programs(Checks):
    """Two registered workers, an orchestrator with two watched ones, two queues, and a clock that the machine moves."""

    checked = "sqlite"  # whose tables are looked at

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = self.make_store()
        self.read = reused(self.checked).reader
        self.ledger = Ledger(self.clock, EVERY)
        self.answered: list[Claim] = []

    def make_store(self) -> Store:
        return reused(self.checked).store(self.clock)

    @initialize(after=st.booleans())
    def open(self, after: bool) -> None:
        """Nobody has to wait long for something to do."""
        self.by_hand = [self.register(), self.register()]
        self.store.queues.set("a", breaker=4)
        self.store.queues.set("b", per_key=1)
        self.join()
        self.add([NewJob("first", queue) for queue in "aabb"])
        self.add([NewJob("second", "b", after=[1, 2] if after else [], limit_key="l1")] * 2)

    def sync(self, claims: Sequence[tuple[int, int, str, int | None]] = ()) -> None:
        """Read what the log tells of this step, with the claims that were answered, and look at the tables."""
        for event in self.store.events.after(self.ledger.cursor, 10_000):
            self.ledger.read(event)
        for claim in claims:
            self.ledger.claimed(*claim)
        self.ledger.expected_finishes.clear()
        self.look()

    def pick(self, number: int) -> int | None:
        known = list(self.ledger.needs)
        return known[number % len(known)] if known else None

    def unchanged_when_refused(self, call: Callable[[], object], *errors: type[RotaError]) -> bool:
        """Whether the call was refused; if so it has appended nothing."""
        before = self.newest_event()
        try:
            call()
        except errors:
            assert self.newest_event() == before, "a refused call changed something"
            return True
        return False

    @rule(
        queue=QUEUES,
        priority=st.integers(0, 2),
        wait=st.sampled_from([None, None, 5 * SECOND, MINUTE]),
        key=st.sampled_from([None, None, None, "k1", "k2"]),
        limit_key=st.sampled_from([None, None, "l1", "l2"]),
        after=st.lists(PICKS, max_size=2),
        attempts=st.integers(1, 3),
    )
    def enqueue(
        self,
        queue: str,
        priority: int,
        wait: int | None,
        key: str | None,
        limit_key: str | None,
        after: list[int],
        attempts: int,
    ) -> None:
        needed = sorted({id for id in map(self.pick, after) if id is not None})
        at = None if wait is None else self.clock.wall() + wait
        self.add([NewJob("job", queue, "", None, priority, needed, None, at, key, limit_key, attempts)] * 2)

    def add(self, new: list[NewJob]) -> None:
        def accept() -> None:
            for id, job in zip(self.store.jobs.add_many(new), new, strict=True):
                self.ledger.accepted(id, list(job.after))

        self.unchanged_when_refused(accept, QueueFull)
        self.sync()

    @rule(number=PICKS, worker=WORKERS, lease=LEASES)
    def claim(self, number: int, worker: int, lease: int) -> None:
        id = self.pick(number)
        if id is None:
            return
        self.beat(self.by_hand[worker])
        try:
            self.got(self.store.claims.claim(id, self.by_hand[worker], lease))
        except (Conflict, Refused):
            self.sync()

    @rule(worker=WORKERS, queue=st.none() | QUEUES, lease=LEASES)
    def take(self, worker: int, queue: str | None, lease: int) -> None:
        self.take_one(worker, queue, lease)

    @rule(lease=LEASES)
    def take_all(self, lease: int = MINUTE) -> None:
        """As much as there is, by one worker and then the other."""
        for number in range(4):
            self.take_one(number % 2, None, lease)

    def take_one(self, worker: int, queue: str | None, lease: int) -> None:
        self.beat(self.by_hand[worker])
        try:
            claim = self.store.claims.take(self.by_hand[worker], queue, lease)
        except NothingReady:
            self.sync()
        else:
            self.got(claim)
            self.check_order([claim.job_id])

    def got(self, claim: Claim) -> None:
        self.sync([(claim.job_id, claim.token, claim.worker_id, claim.lease_expires_at)])
        self.answered.append(claim)

    def beat(self, worker: str) -> None:
        self.ledger.beats[worker] = self.clock.now()

    @rule(number=PICKS, lease=LEASES)
    def renew(self, number: int, lease: int) -> None:
        if not self.answered:
            return
        claim = self.answered[-1 - number % min(len(self.answered), 8)]
        held = self.ledger.holders.get(claim.job_id)
        mine = held if held is not None and held.token == claim.token else None
        live = mine is not None and mine.lease is not None and self.clock.now() < mine.lease
        renewed: list[Claim] = []
        refused = self.unchanged_when_refused(lambda: renewed.append(self.store.claims.renew(claim, lease)), Stale)
        # I2: only the current token renews. I28: by hand it never revives.
        assert refused != live, f"I2, I28: renewing {claim} was {'refused' if refused else 'accepted'}"
        if renewed and mine is not None:
            until = renewed[0].lease_expires_at
            # I28: a renewal never shortens.
            assert mine.lease is not None and until is not None and until >= mine.lease, "I28: a renewal shortened"
            mine.lease = until
            self.beat(claim.worker_id)
        self.sync()

    @rule(number=PICKS, outcome=OUTCOMES)
    def settle(self, number: int, outcome: Outcome) -> None:
        if not self.answered:
            return
        claim = self.answered[-1 - number % min(len(self.answered), 8)]
        current = self.ledger.is_current(claim.job_id, claim.token)
        repeat = self.ledger.ended.get(claim.token) == verb_of(outcome)
        if current and isinstance(outcome, Done):
            self.ledger.expected_finishes.add(claim.job_id)
        before = self.newest_event()
        refused = self.unchanged_when_refused(lambda: self.store.claims.settle(claim, outcome), Stale)
        # I2: every accepted settle carried the current token; a repeated one changes nothing.
        assert refused == (not current and not repeat), f"I2: settling {claim}, current: {current}"
        assert current or self.newest_event() == before, "I2: a settle without the current token changed something"
        if current:
            self.beat(claim.worker_id)
        self.sync()

    @rule(reports=st.lists(st.tuples(PICKS, OUTCOMES), max_size=3), room=st.integers(0, 2), lost=st.integers(0, 4))
    def exchange(self, reports: list[tuple[int, Outcome]], room: int, lost: int) -> None:
        outcomes, gone = self.reports(reports), self.ledger.crew_gone
        current = [self.ledger.is_current(job, token) for job, token, _ in outcomes]
        for (job, _, outcome), held in zip(outcomes, current, strict=True):
            if held and isinstance(outcome, Done):
                self.ledger.expected_finishes.add(job)
        self.crew.queue = "b" if room == 1 else "a"
        # After a lost answer the orchestrator's ledger lacks the newest claim, which then goes back.
        holdings = [held.token for _, held in self.ledger.claims[:-1]] if not lost else None
        try:
            answer = self.exchange_and_renew(outcomes, room, holdings)
        except Stale:
            assert gone, "a living orchestrator's exchange was refused"
            self.ledger.expected_finishes.clear()
            self.sync()
            return
        assert not (gone and (outcomes or answer.claims)), "an orchestrator that was given up exchanged something"
        for (_, token, outcome), held in zip(outcomes, current, strict=True):
            # I2: accepted if and only if the token was the current one; a repeat may count as accepted.
            if held or self.ledger.ended.get(token) != verb_of(outcome):
                assert (token in answer.refused) != held, f"I2: the outcome of token {token}, current: {held}"
        self.sync([(each.job_id, each.token, each.worker_id, None) for each in answer.claims])
        self.check_order([each.job_id for each in answer.claims])

    def exchange_and_renew(self, outcomes: list[Report], room: int, holdings: list[int] | None) -> Exchange:
        before = self.crew.number
        answer = self.crew.exchange(outcomes, room, holdings)
        if answer.number > before:
            self.ledger.crew_lease = self.clock.now() + LEASE
        return answer

    def reports(self, picks: list[tuple[int, Outcome]]) -> list[Report]:
        """Outcomes of claims that were handed out once, each at most once, current or not."""
        found: dict[int, Report] = {}
        for number, outcome in picks:
            if self.ledger.claims:
                job, held = self.ledger.claims[-1 - number % min(len(self.ledger.claims), 8)]
                found[held.token] = (job, held.token, outcome)
        return list(found.values())

    @rule(anew=st.booleans())
    def renew_crew(self, anew: bool) -> None:
        if anew and self.ledger.crew_gone:
            self.join()
            return
        try:
            until = self.crew.renew()
        except Stale:
            assert self.ledger.crew_gone, "I11: a living orchestrator was given up"
        else:
            # I28: a renewal never shortens, and revives nothing that was given up.
            assert until >= self.ledger.crew_lease and not self.ledger.crew_gone, "I28: an orchestrator's renewal"
            self.ledger.crew_lease = until
        self.sync()

    def join(self) -> None:
        self.crew = Crew(self.store, 2, "a")
        self.ledger.crew_lease, self.ledger.crew_gone = self.clock.now() + LEASE, False
        self.sync()

    def register(self) -> str:
        worker = self.store.workers.register("loop", every=EVERY).id
        self.beat(worker)
        self.sync()
        return worker


def verb_of(outcome: Outcome) -> str:
    return {Done: jobs.FINISH, Failed: jobs.FAIL, Snoozed: jobs.SNOOZE, Released: jobs.RELEASE}[type(outcome)]
