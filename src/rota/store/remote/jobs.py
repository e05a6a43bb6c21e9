"""Jobs over the API."""

from __future__ import annotations

import time

from rota.core.claim import Done, Failed, Snoozed
from rota.core.errors import NotFound, QueueFull, Refused
from rota.core.job import ACTIVE, DONE, Needed
from rota.core.jsontext import Raw
from rota.core.times import SECOND, format_instant
from rota.store.remote import records
from rota.store.remote.client import Port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    from rota.core.claim import Outcome
    from rota.core.job import Job, NewJob
    from rota.core.times import Duration
    from rota.store.jobs.jobs import Jobs

    class _Port(Jobs, Port): ...

    T = TypeVar("T")
else:
    _Port = Port

LOOK_AGAIN = 0.25


class RemoteJobs(_Port):
    """The port for jobs."""

    def add(self, new: NewJob, wait: Duration = 0) -> Job:
        body = self._new(new)
        return records.job(_patiently(lambda: self._link.post("/jobs", body, details=True), wait))

    def add_many(self, new: Iterable[NewJob], wait: Duration = 0) -> list[int]:
        bodies = [self._new(each) for each in new]
        ids: list[int] = []
        if bodies:
            ids = _patiently(lambda: self._link.post("/jobs/bulk", {"jobs": bodies}), wait)["ids"]
        return ids

    def get(self, id: int) -> Job:
        return records.job(self._link.get(f"/jobs/{id}", details=True))

    def get_or(self, done: Job) -> Job:
        try:
            return self.get(done.id)
        except NotFound:
            return done

    def ready(self, queue: str | None = None, limit: int = 10) -> list[Job]:
        return [records.job(each) for each in self._link.get("/jobs/ready", queue=queue, limit=limit, details=True)]

    def block(self, id: int, on: int) -> Job:
        return self._change(id, "block", {"on": on})

    def unblock(self, id: int, on: int) -> Job:
        return self._change(id, "unblock", {"on": on})

    def done(self, id: int, result: Any = None, force: bool = False) -> Job:
        body = {"result": _checked(result, "result"), "force": force}
        return self._settle(id, "done", body, lambda: Done(_encoded(result, "result")))

    def fail(self, id: int, error: str, again: bool = True, force: bool = False) -> Job:
        body = {"error": error, "final": not again, "force": force}
        return self._settle(id, "fail", body, lambda: Failed(error, again))

    def snooze(self, id: int, delay: Duration, note: str | None = None) -> Job:
        body = {"delay": records.seconds(delay), "note": note}
        return self._settle(id, "snooze", body, lambda: Snoozed(delay, note))

    def results(self, id: int, token: int | None = None) -> list[Needed]:
        if token is None:
            documents = self._link.get(f"/jobs/{id}/results")
        else:
            documents = self._link.post(f"/jobs/{id}/claim/results", {"token": token})
        return [records.needed(document) for document in documents]

    def cancel(self, id: int) -> Job:
        return self._change(id, "cancel", {})

    def retry(self, id: int) -> Job:
        return self._change(id, "retry", {})

    def why(self, id: int) -> str:
        return str(self._link.get(f"/jobs/{id}/why")["why"])

    def wait(self, ids: Sequence[int], condition: str = "final", timeout: Duration | None = None) -> list[Job]:
        from rota.store.jobs.jobs import Jobs

        return Jobs.wait(self, ids, condition, timeout)

    def held(self, limit: int = 50, internal: bool = False) -> list[Job]:
        found = self.list(ACTIVE, limit=limit, internal=internal)
        return sorted(found, key=lambda job: (job.claimed_at or 0, job.token or 0))

    def list(
        self,
        status: str | None = None,
        queue: str | None = None,
        limit: int = 50,
        before: int | None = None,
        internal: bool = False,
    ) -> list[Job]:
        found: list[Job] = []
        while len(found) < limit:
            most = min(1000, limit - len(found))
            page = self._link.get(
                "/jobs", status=status, queue=queue, limit=most, before=before, internal=internal, details=True
            )
            found += [records.job(each) for each in page]
            if not page or (len(page) < most and not self._link.goes_on):  # a page of large jobs ends sooner
                break
            before = found[-1].id
        return found

    def _settle(self, id: int, verb: str, body: dict[str, Any], outcome: Callable[[], Outcome]) -> Job:
        """Settle without the claim's token. Who may only work settles what its own worker holds, by the token of that.

        The API refuses that token to those who may not speak for its holder, and to all once another claim took its
        place.
        """
        try:
            return self._change(id, verb, body)
        except Refused:
            job = self.get(id)
            if body.get("force") or job.status != ACTIVE or job.orchestrator is not None or job.lapses:
                raise
        self._store.claims.settle(records.claim_of(job), outcome())
        return self.get_or(job.replace(status=DONE))

    def _change(self, id: int, verb: str, body: dict[str, Any]) -> Job:
        return records.job(self._link.post(f"/jobs/{id}/{verb}", body, details=True))

    def _new(self, job: NewJob) -> dict[str, Any]:
        """A job as it is sent: what was said of it, and the settings here."""
        job = _read(job)
        told = {name: getattr(job, name) for name in job._fields}
        told["payload"] = _checked(job.payload, "payload")
        told["after"], told["follows"] = list(job.after), list(job.follows)
        told["debounce"], told["at_most"] = records.seconds(told["debounce"]), records.seconds(told["at_most"])
        told["at"] = None if job.at is None else format_instant(job.at)
        told["timeout"] = records.seconds(job.timeout)
        told["max_attempts"] = self._store.settings.max_attempts if job.max_attempts is None else job.max_attempts
        return {name: value for name, value in told.items() if value not in (None, [])}


def _read(job: NewJob) -> NewJob:
    """The same; the durations of a debounced one as numbers."""
    if job.debounce is None and job.at_most is None:
        return job
    from rota.store.jobs.enqueue import checked

    return checked(job)


def _encoded(value: object, what: str) -> str | None:
    from rota.store.jobs.payload import encode

    return encode(value, what)


def _checked(value: object, what: str) -> Raw | None:
    """A value of the caller's as JSON, refused here when it has no such form."""
    if value is None:
        return None
    from rota.store.jobs.payload import encode

    text = encode(value, what)
    return None if text is None else Raw(text)


def _patiently(ask: Callable[[], T], wait: Duration) -> T:
    """Ask until there is room in the queue, for so long."""
    deadline = time.monotonic() + wait / SECOND
    while True:
        try:
            return ask()
        except QueueFull:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            time.sleep(min(left, LOOK_AGAIN))
