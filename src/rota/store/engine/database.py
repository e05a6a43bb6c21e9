"""What the store asks of a database: `sqlite` and `postgres` are behind it."""

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
        """Wakes when something may have changed; a hint, with a poll behind it."""

        def wait(self, seconds: float) -> bool: ...

        def fileno(self) -> int: ...

        def clear(self) -> None: ...

        def close(self) -> None: ...

    class Log(Protocol):
        """The events by cursor: opaque texts that only the database that made them can read."""

        def after(self, cursor: str, most: int) -> list[Row]:
            """Cursor, instant, actor and facts of what came after a cursor, oldest first."""

        def before(self, cursor: str | None, most: int) -> list[Row]:
            """The same of what came before a cursor, or last of all, oldest first."""

        def last(self) -> str:
            """The cursor after all there is."""

        def reaches(self, cursor: str) -> bool:
            """Whether everything after a cursor is still in the log, and it is of this log."""

    class Database(Protocol):
        """One connection: named statements, transactions, the store's clock, the log and the bell.

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
            """The folder of this host in which what commands write is kept."""

        @property
        def log(self) -> Log: ...

        def now(self) -> Instant: ...

        def wall(self) -> Instant: ...

        def moment(self) -> tuple[Instant, Instant]:
            """The readings `now` and `wall`; within a transaction those of its beginning, if the database tells."""

        def clock(self) -> dict[str, Instant | None]:
            """`now` and `wall` for a statement that has `$now` or `$wall`: None for the moment at which it runs."""

        def hurry(self, seconds: float) -> None:
            """From now on, a look that takes longer or would have to wait is given up, where it is at a file."""

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
            """Listen for events, for work, or `behind_lock` for work that is claimed with the write lock only."""

        def integrity(self) -> str: ...

        def give_back(self, most: int) -> int:
            """Give up to so many unused pages of a file back to the disk; how many, 0 when enough are given back."""

        def last_room(self) -> AbstractContextManager[None]:
            """For changes that make room on a full disk: within the block they may use what is kept free for them."""

        def close(self) -> None: ...
