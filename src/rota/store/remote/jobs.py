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
        bodies = [self._new(job) for job in new]
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
        return [records.job(job) for job in self._link.get("/jobs/ready", queue=queue, limit=limit, details=True)]

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
        active = self.list(ACTIVE, limit=limit, internal=internal)
        return sorted(active, key=lambda job: (job.claimed_at or 0, job.token or 0))

    def list(
        self,
        status: str | None = None,
        queue: str | None = None,
        limit: int = 50,
        before: int | None = None,
        internal: bool = False,
    ) -> list[Job]:
        jobs: list[Job] = []
        while len(jobs) < limit:
            most = min(1000, limit - len(jobs))
            page = self._link.get(
                "/jobs", status=status, queue=queue, limit=most, before=before, internal=internal, details=True
            )
            jobs += [records.job(document) for document in page]
            # A page of large jobs is shorter than asked for, and links to the next.
            if not page or (len(page) < most and not self._link.goes_on):
                break
            before = jobs[-1].id
        return jobs

    def _settle(self, id: int, verb: str, body: dict[str, Any], outcome: Callable[[], Outcome]) -> Job:
        """Settle without the claim's token, or, with the scope `work` alone, by the token of the job's claim.

        The API accepts that token only from the access token that owns its worker, and only while the claim is current.
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
        """Return the body of a new job: its fields, with the settings of this host as defaults."""
        job = _read(job)
        body = {name: getattr(job, name) for name in job._fields}
        body["payload"] = _checked(job.payload, "payload")
        body["after"], body["follows"] = list(job.after), list(job.follows)
        body["debounce"], body["at_most"] = records.seconds(body["debounce"]), records.seconds(body["at_most"])
        body["at"] = None if job.at is None else format_instant(job.at)
        body["timeout"] = records.seconds(job.timeout)
        body["max_attempts"] = self._store.settings.max_attempts if job.max_attempts is None else job.max_attempts
        return {name: value for name, value in body.items() if value not in (None, [])}


def _read(job: NewJob) -> NewJob:
    """Return the job with the durations of a debounce as numbers."""
    if job.debounce is None and job.at_most is None:
        return job
    from rota.store.jobs.enqueue import checked

    return checked(job)


def _encoded(value: object, what: str) -> str | None:
    from rota.store.jobs.payload import encode

    return encode(value, what)


def _checked(value: object, what: str) -> Raw | None:
    """Return a value of the caller as JSON text, or refuse one that has no such form."""
    if value is None:
        return None
    from rota.store.jobs.payload import encode

    text = encode(value, what)
    return None if text is None else Raw(text)


def _patiently(ask: Callable[[], T], wait: Duration) -> T:
    """Repeat a request until there is room in the queue, for at most `wait`."""
    deadline = time.monotonic() + wait / SECOND
    while True:
        try:
            return ask()
        except QueueFull:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            time.sleep(min(left, LOOK_AGAIN))
