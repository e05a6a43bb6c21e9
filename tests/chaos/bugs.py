"""Bugs to plant in rota's own code, each a function that changes one thing. Only `tests.chaos.planted` calls them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rota.core import claim as claims
from rota.core.claim import Died, End
from rota.core.job import FINISH
from rota.core.restart import Restart, RestartPolicy
from rota.core.slot import History
from rota.store import adding, ending, exchange
from rota.store.claims import Claims
from rota.store.queues import Queues
from rota.store.statements import Statements
from rota.store.transaction import Transaction
from tests.support.statements import with_mistake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.claim import Claim, Outcome
    from rota.core.death import Charge
    from rota.core.job import NewJob
    from rota.core.times import Instant


def plant(where: object, name: str, wrong: object) -> None:
    assert hasattr(where, name), f"there is no {name} any more: plant this bug anew"
    setattr(where, name, wrong)


def change_statement(name: str, old: str, new: str) -> None:
    plant(Statements, "text", with_mistake(name, old, new))


def settles_with_any_token() -> None:
    right = Claims.settle

    def settle(self: Claims, claim: Claim, outcome: Outcome) -> None:
        right(self, claim.but(token=self._store.jobs.get(claim.job_id).token), outcome)

    plant(Claims, "settle", settle)


def releases_what_was_done() -> None:
    """The first end of each job is taken for a release."""
    right = exchange.settle
    before: set[int] = set()

    def settle(store: Any, tx: Transaction, outcomes: Sequence[Any]) -> Any:
        changed = [(job, token, end if job in before else claims.Released("")) for job, token, end in outcomes]
        before.update(job for job, _, _ in outcomes)
        return right(store, tx, changed)

    plant(exchange, "settle", settle)


def claims_again_with_the_same_token() -> None:
    right = exchange._deal_out

    def deal_out(
        tx: Transaction, id: int, queue: Any, dealt: Sequence[tuple[str, Any]], *rest: Any, **more: Any
    ) -> Any:
        kept = [(worker, (*row[:-1], row[9] or tx.draw_many("token", 1)[0])) for worker, row in dealt]
        return right(tx, id, queue, kept, *rest, **more)

    plant(exchange, "_deal_out", deal_out)
    for name in ("record_done", "record"):
        change_statement(f"claim.{name}", "INSERT INTO run", "INSERT OR REPLACE INTO run")


def counts_a_restart_after_deciding() -> None:
    right = History.after_death

    def after_death(
        self: History, policy: RestartPolicy, charge: Charge, now: Instant
    ) -> tuple[History, Instant | None]:
        uncounted = self.but(restarts=self.restarts[:-1], lifetime=max(0, self.lifetime - 1))
        decided, start_at = right(uncounted, policy, charge, now)
        if start_at is None or not charge.counts:
            return decided.but(restarts=self.restarts, lifetime=self.lifetime), start_at
        return decided.but(restarts=(*self.restarts, now), lifetime=self.lifetime + 1), start_at

    plant(History, "after_death", after_death)


def forgets_restarts() -> None:
    """Decides right, and remembers no restart but the last: the limit is never reached."""
    right = History.after_death

    def after_death(
        self: History, policy: RestartPolicy, charge: Charge, now: Instant
    ) -> tuple[History, Instant | None]:
        history, start_at = right(self, policy, charge, now)
        return history.but(restarts=history.restarts[-1:], lifetime=min(1, history.lifetime)), start_at

    plant(History, "after_death", after_death)


def ignores_the_restart_limit() -> None:
    def decide(self: RestartPolicy, restarts: Sequence[Instant], lifetime: int, now: Instant) -> Restart:
        return Restart(self.first_backoff)

    plant(RestartPolicy, "decide", decide)


def spends_no_attempt_at_death() -> None:
    right = claims.end

    def end(job: Any, why: Any, *rest: Any) -> End:
        decided = right(job, why, *rest)
        return decided.but(spent=0) if isinstance(why, Died) else decided

    plant(ending, "end", end)


def lets_dependents_go_too_early() -> None:
    plant(adding, "is_open", lambda status, until: False)


def leaves_events_out() -> None:
    right = Transaction.moved

    def moved(self: Transaction, verb: str, *rest: Any, **facts: Any) -> None:
        right(self, verb, *rest, **facts)
        if verb == FINISH:
            self._facts.pop()

    plant(Transaction, "moved", moved)


def runs_what_was_called_off() -> None:
    change_statement("claim.pick", "status = 'ready'", "status IN ('ready', 'cancelled')")
    change_statement("claim.take_all", "status = 'ready'", "status IN ('ready', 'cancelled')")


def claims_from_a_paused_queue() -> None:
    right = Queues.open_ones

    def open_ones(self: Queues, name: str | None = None, rows: Any = None) -> Any:
        known = self._store.database.execute("queue.all", {}) if rows is None else rows
        (place,) = (place for place, column in enumerate(_columns()) if column == "paused_at")
        return right(self, name, [(*row[:place], None, *row[place + 1 :]) for row in known])

    plant(Queues, "open_ones", open_ones)


def _columns() -> tuple[str, ...]:
    from rota.core.queue import Queue

    return Queue._fields


def ignores_a_queues_limit() -> None:
    right: Any = vars(exchange)["allow"]
    plant(exchange, "allow", lambda queue, running, want, now: right(queue, 0, want, now).but(granted=want))


def claims_the_newest_first() -> None:
    change_statement("claim.pick", "priority DESC, id ", "priority DESC, id DESC ")


def keeps_the_claims_of_the_dead() -> None:
    right = ending.end_claim
    plant(ending, "end_claim", lambda tx, job, why, *rest: isinstance(why, Died) or right(tx, job, why, *rest))


def adds_a_key_twice() -> None:
    right = adding.Addition._add_one

    def add_one(self: adding.Addition, id: int, new: NewJob, payload: str | None) -> int:
        again = self._known(new) is not None
        return right(self, id, new.but(key=None) if again else new, payload)

    plant(adding.Addition, "_add_one", add_one)


def writes_no_certificate() -> None:
    right = Transaction.execute

    def execute(self: Transaction, statement: str, /, **params: Any) -> Any:
        return [] if statement == "worker.certify" else right(self, statement, **params)

    plant(Transaction, "execute", execute)


def leaks_descriptors() -> None:
    from rota.orchestrator.child import Child

    right = Child.close

    def close(self: Child) -> None:
        os.dup(self.pidfd)
        os.dup(self.pipe.fileno())
        right(self)

    plant(Child, "close", close)
