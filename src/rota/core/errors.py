"""What can go wrong, one class per exit code; the message names what was wrong and what would be right."""

from __future__ import annotations


class RotaError(Exception):
    """Something failed (exit code 1); every error of rota is one of these."""

    exit_code = 1


class StoreError(RotaError):
    """The store could not be read or written: full, corrupt, read-only, foreign or out of reach."""


class StoreFull(StoreError):
    """No room on the disk; nothing was acknowledged, and it works again when there is room."""


class Replaced(StoreError):
    """The database that is open was removed with its lock, or replaced by another: nobody will ever see it again."""


class StoreAway(StoreError):
    """The database is out of reach; nothing was changed, and it works again when the database is back."""


class InDoubt(StoreError):
    """The link broke while a change was made whole: it stands as a whole or not at all, and which is not known."""


class Contended(StoreError):
    """Others were in the way, so the database undid the change; it can be made again."""


class TakesLong(StoreError):
    """A look that was to be quick would have taken long: look again where nobody waits for it."""


class NotAllowed(StoreError):
    """The role that opened the database may not do this."""


class SchemaMismatch(StoreError):
    """The database was made by a newer rota than this one, or by a development version from before 0.1."""


class BadInput(RotaError):
    """The request itself is wrong (exit code 2)."""

    exit_code = 2


class BadSetting(BadInput):
    """A setting that makes no sense, refused at start."""


class TooLarge(BadInput):
    """A payload, result or checkpoint over its limit."""


class Cycle(BadInput):
    """A dependency that would make a job wait for itself."""


class NotFound(RotaError):
    """No such job, worker, queue or database (exit code 3)."""

    exit_code = 3


class Conflict(RotaError):
    """Someone else has it, or it is in a state that does not allow this (exit code 4)."""

    exit_code = 4


class Stale(RotaError):
    """The claim is no longer yours: its token or its lease was lost (exit code 5)."""

    exit_code = 5


class Refused(RotaError):
    """Not now (exit code 6): paused, nothing ready, a limit reached, not running."""

    exit_code = 6


class Denied(Refused):
    """The caller may not do this: it is another's, or the caller's access token does not allow it."""


class QueueFull(Refused):
    """The queue is at its maximum depth."""


class NothingReady(Refused):
    """No job can be claimed now."""


class WaitedTooLong(Refused):
    """The time the caller gave ran out."""


class UnknownWorker(RotaError):
    """This worker id is not registered: register again (exit code 7)."""

    exit_code = 7
