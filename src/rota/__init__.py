"""rota keeps a crew of worker processes alive and the work they hold safe.

The public names are imported when they are first used: a command line call needs none of them.
"""

from __future__ import annotations

from rota.core.version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.app import App as App
    from rota.core.claim import Claim as Claim
    from rota.core.claim import Done as Done
    from rota.core.claim import Failed as Failed
    from rota.core.claim import Released as Released
    from rota.core.claim import Run as Run
    from rota.core.claim import Snoozed as Snoozed
    from rota.core.errors import BadInput as BadInput
    from rota.core.errors import BadSetting as BadSetting
    from rota.core.errors import Conflict as Conflict
    from rota.core.errors import Contended as Contended
    from rota.core.errors import Cycle as Cycle
    from rota.core.errors import Denied as Denied
    from rota.core.errors import InDoubt as InDoubt
    from rota.core.errors import NotAllowed as NotAllowed
    from rota.core.errors import NotFound as NotFound
    from rota.core.errors import NothingReady as NothingReady
    from rota.core.errors import QueueFull as QueueFull
    from rota.core.errors import Refused as Refused
    from rota.core.errors import Replaced as Replaced
    from rota.core.errors import RotaError as RotaError
    from rota.core.errors import SchemaMismatch as SchemaMismatch
    from rota.core.errors import Stale as Stale
    from rota.core.errors import StoreAway as StoreAway
    from rota.core.errors import StoreError as StoreError
    from rota.core.errors import StoreFull as StoreFull
    from rota.core.errors import TooLarge as TooLarge
    from rota.core.errors import UnknownWorker as UnknownWorker
    from rota.core.errors import WaitedTooLong as WaitedTooLong
    from rota.core.job import Job as Job
    from rota.core.job import Needed as Needed
    from rota.core.job import NewJob as NewJob
    from rota.core.queue import Queue as Queue
    from rota.core.worker import Worker as Worker
    from rota.crew import Crew as Crew
    from rota.task import Batch as Batch
    from rota.task import JobHandle as JobHandle
    from rota.task import Task as Task
    from rota.worker.context import Context as Context
    from rota.worker.handler import GiveUp as GiveUp
    from rota.worker.handler import Snooze as Snooze
    from rota.worker.inprocess.run_worker import run_worker as run_worker
    from rota.worker.sources.sql_source import SqlSource as SqlSource

_HOMES = {
    "rota.app": ("App",),
    "rota.core.claim": ("Claim", "Done", "Failed", "Released", "Run", "Snoozed"),
    "rota.core.errors": (
        "BadInput",
        "BadSetting",
        "Conflict",
        "Contended",
        "Cycle",
        "Denied",
        "InDoubt",
        "NotAllowed",
        "NotFound",
        "NothingReady",
        "QueueFull",
        "Refused",
        "Replaced",
        "RotaError",
        "SchemaMismatch",
        "Stale",
        "StoreAway",
        "StoreError",
        "StoreFull",
        "TooLarge",
        "UnknownWorker",
        "WaitedTooLong",
    ),
    "rota.core.job": ("Job", "Needed", "NewJob"),
    "rota.core.queue": ("Queue",),
    "rota.core.worker": ("Worker",),
    "rota.crew": ("Crew",),
    "rota.task": ("Batch", "JobHandle", "Task"),
    "rota.worker.inprocess.run_worker": ("run_worker",),
    "rota.worker.sources.sql_source": ("SqlSource",),
    "rota.worker.context": ("Context",),
    "rota.worker.handler": ("GiveUp", "Snooze"),
}


if not TYPE_CHECKING:

    def __getattr__(name):
        for home, names in _HOMES.items():
            if name in names:
                from importlib import import_module

                return getattr(import_module(home), name)
        raise AttributeError(f"module 'rota' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["__version__", *(name for names in _HOMES.values() for name in names)])
