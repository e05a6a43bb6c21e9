"""Detect when a pool is to blame for failures and not its jobs: they succeeded, and now all fail (decision 35)."""

from __future__ import annotations

from rota.core.record import Record
from rota.core.times import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Duration, Instant

# How unlikely so many failures in a row must be, by what failed until then, to be no accident: after a hundred
# successes these are three, after ten six. A pool in which a third fails anyway needs thirteen.
UNLIKELY = 1e-6
ENOUGH, REMEMBERED = 100, 1000
FIRST_WAIT, LONGEST_WAIT = SECOND, 60 * SECOND
MOST_ROUNDS = 7  # two minutes in all; after that the jobs are to blame


class Streak(Record):
    """How the jobs of a pool end, and how often it has backed off since one went well.

    `failed` are the jobs that failed since then, each counted once, and `good` and `bad` the jobs before them. From
    `until` on some jobs are tried.
    """

    good: int = 0
    bad: int = 0
    failed: frozenset[int] = frozenset()
    rounds: int = 0
    until: Instant = 0

    @property
    def is_on(self) -> bool:
        """Whether the pool is backing off."""
        return self.rounds > 0

    @property
    def tries(self) -> int:
        """How many jobs this round tries, if they are short."""
        return 1 << max(0, self.rounds - 1)

    @property
    def wait(self) -> Duration:
        """How long the pool waits in this round."""
        return min(FIRST_WAIT * self.tries, LONGEST_WAIT)

    def after_success(self) -> Streak:
        if self.good >= ENOUGH and not self.bad and not self.failed:  # as most are: every job of a crew comes by here
            return self
        good, bad = self.good + 1, self.bad + len(self.failed)
        return Streak(good, bad) if good + bad < REMEMBERED else Streak(good // 2, bad // 2)

    def after_failure(self, job: int, now: Instant) -> Streak:
        failed = self.failed | {job}
        if self.is_on:
            return self
        usual = (self.bad + 1) / (self.good + self.bad + 2)
        if self.good and usual ** len(failed) < UNLIKELY:
            return self.replace(failed=failed, rounds=1, until=now + FIRST_WAIT)
        return self.replace(failed=failed)

    def after_try(self, now: Instant) -> Streak:
        """Some jobs are tried now. After enough such rounds the pool goes on as if it had never worked."""
        if self.rounds >= MOST_ROUNDS:
            return Streak()
        tried = self.replace(rounds=self.rounds + 1)
        return tried.replace(until=now + tried.wait)
