"""The protocol of a database, which `sqlite` and `postgres` implement."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from rota.core.times import Instant
    from rota.store.engine.rows import Row

    class Clock(Protocol):
        """Two readings: `now` for leases, `wall` for schedules (decision 6)."""

        def now(self) -> Instant: ...

        def wall(self) -> Instant: ...

    class Listener(Protocol):
        """A wait for notifications that something may have changed. They are hints: listeners poll too."""

        def wait(self, seconds: float) -> bool: ...

        def fileno(self) -> int: ...

        def clear(self) -> None: ...

        def close(self) -> None: ...

    class Log(Protocol):
        """The event log by cursor: an opaque text that only the database that made it can read."""

        def after(self, cursor: str, most: int) -> list[Row]:
            """Return the cursor, instant, actor and facts of each event after a cursor, oldest first."""

        def before(self, cursor: str | None, most: int) -> list[Row]:
            """Return the events before a cursor, or the last ones, as `after` does, oldest first."""

        def last(self) -> str:
            """Return the cursor after the newest event."""

        def reaches(self, cursor: str) -> bool:
            """Return whether a cursor is of this log and everything after it is still there."""

    class Database(Protocol):
        """One connection: named statements, transactions, the store's clock, the event log and notifications.

        `path` names it for people, `url` for programs; `beside` is how paths of this host's files for it begin. Where
        `locks_rows`, several write at once, unless one asks to write exclusively. `is_borrowed`: its transactions are
        parts of one that a caller ends, nobody knows when. `is_networked`: messages to it take time, so some changes
        have one statement for all of it.
        """

        dialect: str
        locks_rows: bool
        is_borrowed: bool
        is_networked: bool
        version: int
        path: str
        url: str

        @property
        def beside(self) -> str: ...

        @property
        def runs(self) -> str:
            """The folder of this host that holds the output of commands."""

        @property
        def log(self) -> Log: ...

        def now(self) -> Instant: ...

        def wall(self) -> Instant: ...

        def moment(self) -> tuple[Instant, Instant]:
            """Return `now` and `wall`; within a transaction those of its beginning, if the server keeps the clock."""

        def clock(self) -> dict[str, Instant | None]:
            """Return the parameters of statements with `$now` or `$wall`: None for the moment at which they run."""

        def hurry(self, seconds: float) -> None:
            """From now on, give up reads of a file that take longer or would have to wait (decision 26)."""

        def execute(self, name: str, params: Mapping[str, Any]) -> list[Row]: ...

        def change(self, name: str, params: Mapping[str, Any]) -> list[Row]: ...

        def prefetch(self, name: str, params: Mapping[str, Any]) -> None: ...

        def many(self, name: str, rows: Iterable[Row]) -> list[Row]: ...

        def write(self, exclusive: bool = False) -> AbstractContextManager[None]: ...

        def read(self) -> AbstractContextManager[None]: ...

        def script(self, text: str, number: int = 0) -> None: ...

        def gaps(self) -> Mapping[str, str]: ...

        def refresh_version(self) -> int: ...

        def set_version(self, version: int) -> None: ...

        def notify_early(self) -> None:
            """Wake orchestrators just before COMMIT, so that they queue for the lock during the fsync (decision 31).

            A no-op on PostgreSQL.
            """

        def notify(self, events_only: bool = False, notified_early: bool = False) -> None:
            """Wake listeners after the commit: of events, and unless `events_only` of work.

            `notified_early`: those behind the lock are awake already.
            """

        def listen(self, events: bool = False, behind_lock: bool = False) -> Listener:
            """Listen for events, for work, or with `behind_lock` for work whose claim needs the write lock anyway."""

        def integrity(self) -> str: ...

        def give_back(self, most: int) -> int:
            """Give at most so many unused pages of a file back to the disk; return how many, 0 when enough are."""

        def last_room(self) -> AbstractContextManager[None]:
            """Within the block, let changes that make room on a full disk use the space kept free for them."""

        def close(self) -> None: ...
