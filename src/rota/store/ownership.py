"""What a caller over HTTP may touch, decided within the transaction that touches it (decision 21).

`Store.access` is the caller's access token; it is None for a program beside the database, which may touch everything,
and an admin's may too. Any other may touch what it began: its workers and their claims, its orchestrators, its hosts
and their slots. An owner never changes, so one that was looked up holds until the commit, whatever others commit.
"""

from __future__ import annotations

from rota.core.access import ADMIN, ENQUEUE, READ
from rota.core.errors import Denied, Refused, Stale, UnknownWorker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rota.core.access import AccessToken
    from rota.core.job import Job
    from rota.store.claims.exchange import Checkpoint, Settled
    from rota.store.store import Store

MOST_QUEUES = 1000  # to which an access token adds one; every exchange, and every beat of a loop, reads all queues
MOST_WORKERS, MOST_ORCHESTRATORS, MOST_SCHEDULES = 5000, 300, 1000  # that are there at a time, of one access token


def restricted(store: Store) -> AccessToken | None:
    """The access token of a caller that may touch only what it began; None for one that may touch everything."""
    access = store.access
    return None if access is None or access.allows(ADMIN) else access


def worker(store: Store, id: str, must_be_known: bool = False) -> None:
    """Refuse to act for a worker that another token registered; unless it must be known, none is harmless."""
    caller = restricted(store)
    if caller is None:
        return
    owners = [access for (access,) in store.database.execute("token.of_worker", {"worker": id})]
    if owners and owners != [caller.id]:
        raise Denied(f"token {caller.name!r} may not act for {id}: another registered it")
    if must_be_known and not owners:
        raise UnknownWorker(f"worker {id} is not registered (any more): register again")


def person(store: Store) -> None:
    """Refuse to claim for a person: a name proves nothing."""
    caller = restricted(store)
    if caller is not None:
        raise Denied(f"token {caller.name!r} may not claim for a person: register a worker and claim for that")


def orchestrator(store: Store, id: int) -> None:
    """Refuse to act for an orchestrator that another token began."""
    caller = restricted(store)
    if caller is not None and store.orchestrators.home(id)[0].access != caller.id:
        raise Denied(f"token {caller.name!r} may not act for orchestrator {id}: another began it")


def claim(store: Store, job_id: int, token: int) -> None:
    """Refuse a claim that another's worker holds or held, and one that nobody ever held."""
    if restricted(store) is not None and not claims(store, [(job_id, token)]):
        raise Stale(f"token {token} stands for no claim on job {job_id}")


def claims(store: Store, wanted: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those of these claims, each `(job, token)`, that the caller's workers hold or held; one of another's is refused.

    What nobody holds is left out: its token may be given to anyone the next moment.
    """
    caller = restricted(store)
    if caller is None or not wanted:
        return set(wanted)
    found = store.database.many("claim.owners", sorted(set(wanted)))
    known = {(job, token): (holder, access) for job, token, holder, access in found}
    for each in wanted:
        holder, access = known.get(each, (None, caller.id))
        if access != caller.id:
            raise Denied(f"token {caller.name!r} may not act for {holder}: another registered it")
    return known.keys() & set(wanted)


def reported(
    store: Store, outcomes: Collection[Settled], checkpoints: Collection[Checkpoint] = ()
) -> tuple[list[Settled], list[Checkpoint]]:
    """What workers reported, without what is of a claim that nobody holds; what is of another's is refused."""
    if restricted(store) is None:
        return list(outcomes), list(checkpoints)
    mine = claims(store, {(job, token) for job, token, _ in outcomes} | {(job, token) for _, job, token in checkpoints})
    return (
        [(job, token, outcome) for job, token, outcome in outcomes if (job, token) in mine],
        [(text, job, token) for text, job, token in checkpoints if (job, token) in mine],
    )


def slots(store: Store, names: Iterable[str]) -> None:
    """Refuse slots that are on no host of the caller's."""
    caller = restricted(store)
    for name in set(names) if caller is not None else ():
        for (own_host,) in store.database.execute("slot.host", {"name": name}):
            host(store, own_host, f"slot {name}")


def host(store: Store, host: str, what: str = "this host") -> None:
    """Refuse what is on a host of another's: a token's own hosts have names that begin with its id."""
    caller = restricted(store)
    if caller is not None and not host.startswith(f"{caller.id}/"):
        raise Denied(f"token {caller.name!r} may not touch {what}: it is another's")


def schedule(store: Store, name: str) -> None:
    """Refuse to declare a schedule that another did, until its token is revoked, and any for whom may add no jobs."""
    caller = restricted(store)
    if caller is None:
        return
    if not caller.allows(ENQUEUE):
        raise Denied(
            f"token {caller.name!r} may not declare schedule {name}, which adds jobs: give its token the scope enqueue"
            " too, or declare it where the database is"
        )
    for access, revoked_at in store.database.execute("schedule.owner", {"name": name}):
        if access != caller.id and revoked_at is None:
            raise Denied(f"token {caller.name!r} may not declare schedule {name}: it is another's")


def queues(store: Store, names: Collection[str]) -> None:
    """Refuse to begin queues beyond a bounded number; people and programs beside the database may have more."""
    caller = restricted(store)
    new = [name for name in names if not store.database.execute("queue.get", {"queue": name})] if caller else []
    if caller is not None and new:
        # Without the row * that stands for all of them.
        have = len(store.database.execute("queue.all", {})) - 1
        if have + len(new) > MOST_QUEUES:
            raise Refused(
                f"token {caller.name!r} may not begin queue {min(new)}: there are {have:,} already, and a token adds"
                f" none beyond {MOST_QUEUES:,}: name one that is there, or make it with `rota queue set`"
            )


def refuse_more(store: Store, statement: str, more: int, most: int, what: str) -> None:
    """Refuse a caller over HTTP that would have more of these than all its programs need."""
    caller = store.access
    if caller is not None and more:
        ((have,),) = store.database.execute(statement, {"access": caller.id})
        if have + more > most:
            raise Refused(f"token {caller.name!r} may have at most {most:,} {what}, and has {have:,} already")


def sees(store: Store, job: Job, token: int) -> bool:
    """Return whether the caller may read a job: it may read all, or nobody has claimed the job since its own claim."""
    return store.access is None or store.access.allows(READ) or job.token == token
