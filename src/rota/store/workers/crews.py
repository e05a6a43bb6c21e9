"""The records that an orchestrator and the store exchange: its host, directives, processes of workers."""

from __future__ import annotations

import os

from rota.core.record import Record
from rota.process.host import host_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Duration, Instant
    from rota.store.workers.slots import Slot


class Home(Record):
    """Where an orchestrator runs; `access` is the id of its token, if it reaches the store over HTTP."""

    host: str
    hostname: str
    pid: int
    version: str | None
    access: str | None = None


class Directive(Record):
    """A directive to an orchestrator: a number to acknowledge, and the state that it may concern."""

    number: int
    slots: list[Slot]
    held: frozenset[int]
    to_stop: frozenset[str]
    paused: frozenset[str]
    desired: str | None


class Process(Record):
    """The process of a worker on this host. With its start it cannot be mistaken for a later one of the same number."""

    worker_id: str
    pid: int
    pid_start: int | None
    slot: str | None = None


class PollResult(Record):
    """What a poll of the store found: a new directive, and when something is next due.

    Where it was asked for, also the processes that registered on this host, and the orphans that still count as alive.
    """

    directive: Directive | None
    due: Duration | None
    processes: list[Process] | None = None
    orphans: list[Process] | None = None


class Progress(Record):
    """The state of an orchestrator, the running number of its last exchange, and what people ask of it."""

    status: str
    exchange: int
    desired: str | None


class Live(Record):
    """An orchestrator that is not gone."""

    id: int
    status: str
    crew: str
    host: str
    hostname: str
    pid: int
    started_at: Instant
    last_reconcile_at: Instant | None
    acknowledged_directive: int
    version: str | None
    lease_expires_at: Instant | None = None


def here() -> Home:
    """This process."""
    from rota.core.version import __version__

    return Home(host_id(), os.uname().nodename, os.getpid(), __version__)
