"""What callers of the API get where that is not a thing itself, but what became of what they asked for."""

from __future__ import annotations

from typing import Literal

from rota.api.schemas.fields import JobStatus, Moment
from rota.api.schemas.nouns import Answer, Orchestrator, Slot


class Gone(Answer):
    """A job that came from a source and left no row when it was done, or that somebody else had since."""

    id: int
    status: JobStatus


class Reconciled(Answer):
    """What reconcile found and mended."""

    dead_workers_found: int
    expired_claims_released: int
    orphaned_jobs_recovered: int
    orphaned_claims_released: int
    stale_states_fixed: int


class Pruned(Answer):
    """How much was forgotten."""

    jobs: int
    events: int
    workers: int


class Info(Answer):
    """What runs here."""

    version: str
    worker_enabled: bool
    orchestrators: list[Orchestrator]
    slots: list[Slot]


class Lease(Answer):
    """Until when an orchestrator's lease lasts, and the number of the last wish."""

    lease_expires_at: Moment
    directive: int


class Certified(Answer):
    """After how many seconds the slot starts again, or null and why it does not."""

    starts_in: float | None
    reason: str | None


class Forgotten(Answer):
    """A source that is gone; how many of its jobs waited and are gone too."""

    name: str
    jobs: int


class Removed(Answer):
    """A schedule that is gone."""

    name: str


class Ids(Answer):
    """The ids of jobs, in the order in which they were sent."""

    ids: list[int]


class Why(Answer):
    """Why a job is not running."""

    id: int
    why: str


class WhySlot(Answer):
    """Why a slot is as it is."""

    id: str
    why: str


class Advice(Answer):
    """What a worker should do."""

    id: str
    advice: Literal["continue", "stop", "pause"]


class Left(Answer):
    """A worker left; how many jobs went back."""

    id: str
    released: int


class Paused(Answer):
    """What was paused; `*` is everything."""

    paused: list[str]


class Resumed(Answer):
    """What was resumed; `*` is everything."""

    resumed: list[str]


class Scaled(Answer):
    """How many workers a queue should have."""

    queue: str
    count: int
    crew: str


class Draining(Answer):
    """The orchestrators that were asked, by process."""

    draining: list[int]


class Code(Answer):
    """A one-time code, and the link that it makes."""

    code: str
    link: str
    expires_in: int


class Clock(Answer):
    """The store's time, by which leases lapse, and the time of day, by which jobs fall due."""

    now: Moment
    wall: Moment


class Kept(Answer):
    """What was told of the claim on a job is kept."""

    id: int


class Alive(Answer):
    """The process answers; for `readyz` the store does too."""

    status: Literal["ok"]
