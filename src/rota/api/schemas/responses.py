"""Responses that are not a noun of their own: results of operations."""

from __future__ import annotations

from typing import Literal

from rota.api.schemas.derive import Answer, shaped
from rota.api.schemas.nouns import Orchestrator, Slot
from rota.api.schemas.requests import JobStatus, Timestamp
from rota.store.maintenance import prune, reconcile


class Gone(Answer):
    """A job of a source, which was deleted when it was done, or a job that another has claimed since."""

    id: int
    status: JobStatus


@shaped(reconcile.Reconciled)
class Reconciled(Answer):
    """What reconcile found and repaired."""


@shaped(prune.Pruned)
class Pruned(Answer):
    """How many rows were deleted."""


class Info(Answer):
    """What runs here."""

    version: str
    worker_enabled: bool
    orchestrators: list[Orchestrator]
    slots: list[Slot]


class Lease(Answer):
    """When an orchestrator's lease expires, and the number of the last directive."""

    lease_expires_at: Timestamp
    directive: int


class Certified(Answer):
    """After how many seconds the slot is restarted; null with the reason if it is not."""

    starts_in: float | None
    reason: str | None


class Forgotten(Answer):
    """A source that was removed, with the number of its waiting jobs, which were removed too."""

    name: str
    jobs: int


class Removed(Answer):
    """A schedule that was removed."""

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
    """A worker that was deregistered, and how many of its jobs were released."""

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
    """The store's clock, by which leases expire, and the wall clock, by which jobs fall due."""

    now: Timestamp
    wall: Timestamp


class Kept(Answer):
    """The job whose claim was updated."""

    id: int


class Alive(Answer):
    """The process answers; for `readyz` the store does too."""

    status: Literal["ok"]
