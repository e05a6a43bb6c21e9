"""The job: its states, the moves between them, and where a job rests when nobody holds it."""

from __future__ import annotations

from rota.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rota.core.state_machine import Moves
    from rota.core.times import Duration, Instant

BLOCKED, SCHEDULED, READY, ACTIVE = "blocked", "scheduled", "ready", "active"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"
STATES = (BLOCKED, SCHEDULED, READY, ACTIVE, DONE, FAILED, CANCELLED)
WAITING = (BLOCKED, SCHEDULED, READY)
FINAL = (DONE, FAILED, CANCELLED)

DEPENDENCY, LIMIT, UNKNOWN_KIND = "dependency", "limit", "kind"
BLOCKERS = (DEPENDENCY, LIMIT, UNKNOWN_KIND)

ADD, UNBLOCK, BLOCK, DUE, CLAIM = "add", "unblock", "block", "due", "claim"
FINISH, FAIL, SNOOZE, RELEASE, EXPIRE, DIE = "finish", "fail", "snooze", "release", "expire", "die"
CANCEL, FORCE, RETRY, DEBOUNCE = "cancel", "force", "retry", "debounce"
UNTIL_DONE, UNTIL_FINAL = "done", "final"
UNTIL = (UNTIL_DONE, UNTIL_FINAL)
UNIQUE_WAITING, UNIQUE_ACTIVE = "waiting", "active"
UNIQUE = (UNIQUE_WAITING, UNIQUE_ACTIVE)

MOVES: Moves = {
    (None, ADD): frozenset({BLOCKED, SCHEDULED, READY}),
    (BLOCKED, UNBLOCK): frozenset({SCHEDULED, READY, BLOCKED}),
    (BLOCKED, FAIL): frozenset({FAILED}),
    (SCHEDULED, BLOCK): frozenset({BLOCKED}),
    (READY, BLOCK): frozenset({BLOCKED}),
    (SCHEDULED, DUE): frozenset({READY, BLOCKED}),
    (READY, CLAIM): frozenset({ACTIVE}),
    (ACTIVE, FINISH): frozenset({DONE}),
    (ACTIVE, FAIL): frozenset({SCHEDULED, READY, BLOCKED, FAILED}),
    (ACTIVE, SNOOZE): frozenset({SCHEDULED, READY, BLOCKED}),
    (ACTIVE, RELEASE): frozenset({READY, BLOCKED}),
    (ACTIVE, EXPIRE): frozenset({READY, BLOCKED, FAILED}),
    (ACTIVE, DIE): frozenset({READY, BLOCKED, FAILED}),
    **{(state, FORCE): frozenset({DONE, FAILED}) for state in WAITING},
    **{(state, CANCEL): frozenset({CANCELLED}) for state in (*WAITING, ACTIVE)},
    **{(state, DEBOUNCE): frozenset(WAITING) for state in WAITING},
    **{(state, RETRY): frozenset({READY, BLOCKED}) for state in FINAL},
}

QUARANTINED = "quarantined"
DEATHS_TO_QUARANTINE = 3


class NewJob(Record):
    """A job as its caller describes it. `payload` is anything JSON can hold; `at` is a time of the wall clock.

    It waits for the jobs `after` it, and for those before it in the same call that it `follows` by their places from 0,
    `until` they are done, or only final. Adding a `key` again answers with the job that has it for as long as its row
    exists; with `unique` only while that job is `waiting`, or until it is no longer `active` either: then the key goes
    to the new job. With `debounce`, adding its key again while it waits replaces its payload and puts it off by so
    long, `at_most` so long in all; both may be texts such as "5s". `trace` is the trace that it is part of, as a W3C
    `traceparent`.
    """

    title: str
    queue: str = "default"
    kind: str = ""
    payload: Any = None
    priority: int = 0
    after: Sequence[int] = ()
    parent: int | None = None
    at: Instant | None = None
    key: str | None = None
    limit_key: str | None = None
    max_attempts: int | None = None
    timeout: Duration | None = None
    trace: str | None = None
    follows: Sequence[int] = ()
    until: str = UNTIL_DONE
    debounce: Duration | str | None = None
    at_most: Duration | str | None = None
    unique: str | None = None

    def meets(self, status: str) -> bool:
        """Whether a job in this state keeps the key that this one asks for; otherwise the key goes to a new job."""
        if self.unique == UNIQUE_WAITING or self.debounce is not None:
            return status in WAITING
        return self.unique is None or status not in FINAL

    @property
    def is_plain(self) -> bool:
        """Whether it is ready at once and concerns no other job: no dependency, time, key or parent."""
        waits = self.after or self.follows or self.at is not None or self.debounce is not None
        return not waits and self.parent is None and self.key is None and self.limit_key is None


class Job(Record):
    """One durable unit of work, as the store holds it. The claim's columns are those of its last claim."""

    id: int
    title: str
    queue: str
    kind: str
    status: str
    blocked_on: str | None
    priority: int
    payload_json: str | None
    parent: int | None
    key: str | None
    limit_key: str | None
    attempts: int
    max_attempts: int
    timeout: Duration | None
    generation: int
    deaths: int
    lapses: int
    dependents: int
    due_at: Instant | None
    due_wall: int
    created_at: Instant
    claimed_at: Instant | None
    finished_at: Instant | None
    token: int | None
    worker_id: str | None
    orchestrator: int | None
    lease: Duration | None
    lease_expires_at: Instant | None
    renewed_count: int
    result_json: str | None
    error: str | None
    note: str | None
    checkpoint_json: str | None
    source: str | None = None
    transcript_path: str | None = None
    stderr_path: str | None = None
    isolated: int = 0
    trace: str | None = None
    scheduled_for: Instant | None = None
    after: tuple[int, ...] = ()
    children: tuple[int, ...] = ()

    @property
    def payload(self) -> Any:
        return _decode(self.payload_json)

    @property
    def result(self) -> Any:
        return _decode(self.result_json)

    @property
    def checkpoint(self) -> Any:
        return _decode(self.checkpoint_json)

    @property
    def deadline(self) -> Instant | None:
        """When the claim must have ended, on the store's clock; None for no limit."""
        return None if self.timeout is None or self.claimed_at is None else self.claimed_at + self.timeout

    def is_lapsed(self, now: Instant) -> bool:
        """Whether a claim by hand is past its lease, so that anyone may take the job."""
        return self.status == ACTIVE and self.lease_expires_at is not None and self.lease_expires_at <= now


class Needed(Record):
    """A job that another waited for: how it ended, and what it said."""

    id: int
    title: str
    status: str
    result_json: str | None
    error: str | None

    @property
    def result(self) -> Any:
        return _decode(self.result_json)


def _decode(text: str | None) -> Any:
    if text is None:
        return None
    import json

    return json.loads(text)


def rest(waits: bool, due: bool, crowded: bool) -> tuple[str, str | None]:
    """Where a job goes that nobody holds and that is not over: its state, and for `blocked` what it waits for.

    `waits`: a job it depends on is not done. `due`: its time has come. `crowded`: its key's limit is reached.
    """
    if waits:
        return BLOCKED, DEPENDENCY
    if not due:
        return SCHEDULED, None
    if crowded:
        return BLOCKED, LIMIT
    return READY, None


def is_open(status: str, until: str) -> bool:
    """Whether a job that waits for one in this state must wait on."""
    return status not in (FINAL if until == UNTIL_FINAL else (DONE,))


def put_off(debounce: Duration, at_most: Duration | None, created_at: Instant, now: Instant) -> Instant:
    """Return until when a job waits that was added again now: `debounce` from now, at most `at_most` in all."""
    return now + debounce if at_most is None else min(now + debounce, created_at + at_most)
