"""Jobs whose title, kind or key holds a text."""

from __future__ import annotations

from rota.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.job import Job
    from rota.store.store import Store

LOOKED_AT = 100_000
LARGEST_PAGE = 8 * 1024 * 1024  # bytes of what jobs hold, beyond which a page ends


class Page(Record):
    """Which jobs a search looks at, newest first."""

    status: str | None = None
    queue: str | None = None
    limit: int = 50
    before: int | None = None
    internal: bool = False


def search(store: Store, text: str, page: Page) -> tuple[list[Job], int | None]:
    """The newest jobs that hold a text, and the id before which to search on; None at the end.

    One search looks at a bounded number of jobs, so that it is quick among millions: it may find none and go on.
    """
    before = page.before or 1 << 62
    ((lowest, count),) = store.database.execute("job.stretch", {"before": before, "window": LOOKED_AT})
    if lowest is None:
        return [], None
    params = {
        "pattern": _pattern(text),
        "status": page.status,
        "queue": page.queue,
        "before": before,
        "from_id": lowest,
        "most": page.limit,
        "internal": int(page.internal),
    }
    ids: list[int] = [id for (id,) in store.database.execute("job.search", params)]
    found: list[Job] = []
    size = 0
    for id in ids:
        if size >= LARGEST_PAGE:
            return found, found[-1].id
        found.append(store.jobs.get(id))
        size += weight(found[-1])
    return found, ids[-1] if len(ids) == page.limit else lowest if count == LOOKED_AT else None


def weight(job: Job) -> int:
    """How many characters of JSON a job holds."""
    return sum(len(text) for text in (job.payload_json, job.result_json, job.checkpoint_json) if text)


def _pattern(text: str) -> str:
    """What LIKE takes for a text that may stand anywhere."""
    escaped = text.lower()
    for special in "!%_":
        escaped = escaped.replace(special, f"!{special}")
    return f"%{escaped}%"
