"""`done`, `fail` and `snooze`: with the claim's token fenced, without it under the rules for people."""

from __future__ import annotations

from rota import documents
from rota.cli.verbs.claims import by_token, token
from rota.core.claim import Claim, Done, Failed, Snoozed
from rota.core.errors import BadInput, NotFound
from rota.core.job import DONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call
    from rota.core.claim import Outcome
    from rota.core.job import Job
    from rota.store.store import Store


def done(call: Call) -> int:
    """The job is done."""
    with call.store() as store:
        mine = _fence(call)
        if mine is None:
            job: Job | int = store.jobs.done(call["id"], call["result"], bool(call["force"]))
        else:
            job = _settle(store, call["id"], mine, Done(_encoded(call["result"])))
    return _answer(call, job)


def fail(call: Call) -> int:
    """The job failed; it is tried again unless that would not help."""
    if not call["error"].strip():
        raise BadInput("--error needs a word about what went wrong")
    with call.store() as store:
        mine, again = _fence(call), not call["final"]
        if mine is None:
            job: Job | int = store.jobs.fail(call["id"], call["error"], again, bool(call["force"]))
        else:
            job = _settle(store, call["id"], mine, Failed(call["error"], again))
    return _answer(call, job)


def snooze(call: Call) -> int:
    """Not now: try again after a while."""
    with call.store() as store:
        mine = token(call)
        if mine is None:
            job: Job | int = store.jobs.snooze(call["id"], call["for"], call["note"])
        else:
            job = _settle(store, call["id"], mine, Snoozed(call["for"], call["note"]))
    return _answer(call, job)


def _fence(call: Call) -> int | None:
    """The token to settle with; none where force was asked for."""
    return None if call["force"] else token(call)


def _settle(store: Store, id: int, mine: int, outcome: Outcome) -> Job | int:
    """The job as it stands; its id when it came from a source and was gone before, settled with this token."""
    try:
        job = store.jobs.get(id)
    except NotFound:
        store.claims.settle(Claim(id, mine, "you", 0, None), outcome)
        return id
    store.claims.settle(by_token(job, mine), outcome)
    return store.jobs.get_or(job.replace(status=DONE))


def _encoded(result: str | None) -> str | None:
    if result is None:
        return None
    from rota.store.jobs.payload import encode

    return encode(result, "result")


def _answer(call: Call, job: Job | int) -> int:
    if isinstance(job, int):
        if call.json:
            call.document({"id": job, "status": DONE})
        else:
            call.say(f"job {job} {DONE}")
    elif call.json:
        call.document(documents.job(job))
    else:
        left = f" (attempt {job.attempts} of {job.max_attempts})" if job.error else ""
        call.say(f"job {job.id} {job.status}{left}")
    return 0
