"""What `run_worker` tells the tracking tables, where its settings or its database have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.claim import Done, Failed
from rota.core.times import SECOND

if TYPE_CHECKING:
    from rota.app import App
    from rota.core.claim import Outcome
    from rota.tracking import Tracker

LAST_BEAT = 3.0


class Tracked:
    """Counts each outcome that the store has taken, from `with` to the end of its block; nobody waits for that."""

    def __init__(self, app: App, database: str) -> None:
        self.app = app
        url = app.settings.replace(db=database).tracking_url
        self._tracker = None if url is None else _tracker(url, app.settings.heartbeat_interval)

    def settled(self, source: str | None, outcome: Outcome) -> None:
        """The store took this. What is given back or put off is neither success nor error."""
        tracker = self._tracker
        if tracker is None or not isinstance(outcome, Done | Failed):
            return
        error = outcome.error if isinstance(outcome, Failed) else None
        if error is None:
            tracker.success()
        else:
            tracker.error(error)
        known = self.app.sources.get(source or "")
        if known is not None and known.vectorizer is not None:
            tracker.progress(known.vectorizer, int(error is None), error)

    def __enter__(self) -> Tracked:
        if self._tracker is not None:
            self._tracker.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._tracker is not None:
            self._tracker.close(0.0 if self._tracker.state == "untracked" else LAST_BEAT)


def _tracker(url: str, every: int) -> Tracker:
    from rota.tracking import Tracker  # psycopg takes long to import, and most workers need none
    from rota.tracking.tracker import LONGEST
    from rota.tracking.worker_rows import NAME

    return Tracker(url, NAME, min(every / SECOND, LONGEST))
