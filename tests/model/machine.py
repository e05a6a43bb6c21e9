"""The state machine: everything that programs and people do to one store, in any order, checked after every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import rule

from rota.core.errors import Conflict, Cycle, NotFound
from rota.core.frames.messages import Kinds
from rota.core.queue import DEFAULT
from rota.core.times import HOUR, MINUTE, SECOND
from rota.core.worker import Dead
from rota.store.workers.crews import Process
from tests.model.programs import PICKS, QUEUES, WORKERS, Programs

if TYPE_CHECKING:
    from collections.abc import Callable


class StoreMachine(Programs):
    """What people and time do, beside what programs do."""

    @rule(by=st.sampled_from([SECOND, 10 * SECOND, MINUTE, MINUTE, 10 * MINUTE, HOUR]), tended=st.booleans())
    def pass_time(self, by: int, tended: bool) -> None:
        self.clock.advance(by)
        if tended:
            self.store.tick()
        self.sync()

    @rule(worker=WORKERS, how=st.sampled_from(["heartbeat", "heartbeat", "reconcile", "deregister"]))
    def look_after(self, worker: int, how: str) -> None:
        if how == "heartbeat":
            assert self.store.workers.heartbeat(self.by_hand[worker]) in ("continue", "pause")
            self.beat(self.by_hand[worker])
        elif how == "reconcile":
            planned = self.store.reconcile(plan=True)
            assert self.store.reconcile() == planned, "a plan and its run differ"
        else:
            self.store.workers.deregister(self.by_hand[worker])
            self.by_hand[worker] = self.register()
        self.sync()

    @rule(number=PICKS, verb=st.sampled_from(["cancel", "retry", "retry"]))
    def cancel_or_retry(self, number: int, verb: str) -> None:
        id = self.pick(number)
        if id is not None:
            call = self.store.jobs.cancel if verb == "cancel" else self.store.jobs.retry
            self.unchanged_when_refused(lambda: call(id), Conflict)
            self.sync()

    @rule(first=PICKS, second=PICKS, verb=st.sampled_from(["block", "block", "unblock"]))
    def block_or_unblock(self, first: int, second: int, verb: str) -> None:
        id, on = self.pick(first), self.pick(second)
        if id is None or on is None:
            return
        if verb == "block":
            if not self.unchanged_when_refused(lambda: self.store.jobs.block(id, on), Conflict, Cycle):
                self.ledger.needs[id].add(on)
        elif not self.unchanged_when_refused(lambda: self.store.jobs.unblock(id, on), NotFound):
            self.ledger.needs[id].discard(on)
        self.sync()

    @rule(queue=QUEUES, what=st.sampled_from(["pause", "pause all", "resume", "limit", "limit", "rate"]), number=PICKS)
    def govern(self, queue: str, what: str, number: int) -> None:
        if "pause" in what or what == "resume":
            self.pause_or_resume(what, queue)
        elif what == "rate":
            self.store.queues.set(queue, rate=(None, None, "10/m", "1000/s")[number % 4])
        else:
            self.limit(queue, number)
        self.sync()

    def pause_or_resume(self, what: str, queue: str) -> None:
        if what == "resume":
            self.keep_counts(self.store.queues.resume)
            return
        name = None if what == "pause all" else queue
        self.keep_counts(lambda: self.store.queues.pause(name))
        # I10: while it is paused nothing of it is claimed, which the ledger checks.
        self.take_all()
        self.exchange([], 2, 1)
        self.keep_counts(lambda: self.store.queues.resume(name))

    def keep_counts(self, call: Callable[[], object]) -> None:
        before = self.counts()
        call()
        # I10: counts are unchanged by pause and resume.
        assert self.counts() == before, "I10: a pause changed the counts"
        self.sync()

    def limit(self, queue: str, number: int) -> None:
        name = ("concurrency", "per_key", "max_depth", "breaker")[number % 4]
        most = (None, 1, 2, 5)[number // 4 % 4]
        self.store.queues.set(queue, **{name: most * 5 if name == "max_depth" and most else most})
        if name == "concurrency":
            self.ledger.at_once[queue] = most

    @rule(worker=WORKERS, knows=st.booleans())
    def mark_dead(self, worker: int, knows: bool) -> None:
        """The next worker may know every kind; then what was set aside goes on."""
        crew = self.crew
        if not self.ledger.crew_gone:
            self.ledger.buried.add(crew.workers[worker])
            self.store.orchestrators.mark_dead(crew.workers[worker], Dead("signaled", "signal 9"))
            slot = f"worker:a:{worker}"
            process = Process(f"worker-{len(self.ledger.buried):08}", 1, 1, slot)
            crew.workers[worker] = self.store.orchestrators.register_worker(crew.id, slot, DEFAULT, process)
            self.store.orchestrators.came_up(process.worker_id, slot, kinds=Kinds(every=knows))
            if knows:
                self.check_nobody_waits_for_a_kind()
            self.sync()

    def check_nobody_waits_for_a_kind(self) -> None:
        waiting = self.read.rows("SELECT id FROM job WHERE status = 'blocked' AND blocked_on = 'kind'")
        assert not waiting, f"{waiting} wait for a worker that knows their kind, and one is there"
