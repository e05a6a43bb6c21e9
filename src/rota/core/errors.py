"""The errors of rota, one class per exit code. A message names what was wrong and what would be right."""

from __future__ import annotations


class RotaError(Exception):
    """The base class of every error that rota raises on purpose (exit code 1)."""

    exit_code = 1


class StoreError(RotaError):
    """The store could not be read or written: full, corrupt, read-only, foreign or out of reach."""


class StoreFull(StoreError):
    """The disk is full. The change was rolled back, and works again when there is room."""


class Replaced(StoreError):
    """The open database file was removed or replaced by another: what is written to it would be lost."""


class StoreAway(StoreError):
    """The database is out of reach. Nothing was changed, and it works again when the database is back."""


class InDoubt(StoreError):
    """The connection was lost during COMMIT: the transaction was either applied completely or not at all."""


class Contended(StoreError):
    """The database rolled the transaction back because of concurrent ones; it can be tried again."""


class TakesLong(StoreError):
    """A query that must be quick was cut off: repeat it where nobody waits for the answer."""


class NotAllowed(StoreError):
    """The role that opened the database may not do this."""


class SchemaMismatch(StoreError):
    """The database was made by a newer rota than this one, or by a development version from before 0.1."""


class BadInput(RotaError):
    """The request itself is wrong (exit code 2)."""

    exit_code = 2


class BadSetting(BadInput):
    """A setting is not valid; raised when the settings are loaded."""


class TooLarge(BadInput):
    """A payload, result or checkpoint is over its limit."""


class Cycle(BadInput):
    """A dependency would make a job wait for itself."""


class NotFound(RotaError):
    """There is no such job, worker, queue or database (exit code 3)."""

    exit_code = 3


class Conflict(RotaError):
    """Another worker holds the job, or its state does not allow this (exit code 4)."""

    exit_code = 4


class Stale(RotaError):
    """The claim was lost: its token is no longer current, or its lease has expired (exit code 5)."""

    exit_code = 5


class Refused(RotaError):
    """This cannot be done now (exit code 6): paused, nothing ready, a limit reached, not running."""

    exit_code = 6


class Denied(Refused):
    """The caller may not do this: it belongs to another worker, or the access token does not allow it."""


class QueueFull(Refused):
    """The queue is at its maximum depth."""


class NothingReady(Refused):
    """No job can be claimed now."""


class WaitedTooLong(Refused):
    """The caller's time limit ran out."""


class UnknownWorker(RotaError):
    """The worker id is not registered: register again (exit code 7)."""

    exit_code = 7
