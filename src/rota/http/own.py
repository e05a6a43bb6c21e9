"""What a host that reaches only the API may touch: its own orchestrator, and that one's slots, workers and claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.access import ADMIN
from rota.core.ids import job_id
from rota.core.record import Record
from rota.http.carried import json_of, settled_of
from rota.http.problem import Denied
from rota.store.exchange import Report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.access import AccessToken
    from rota.http.carried import Reported
    from rota.http.visit import Visit
    from rota.store.crews import Home, Process
    from rota.store.exchange import Settled
    from rota.store.store import Store


class Own(Record):
    """An orchestrator that the caller may speak for."""

    id: int
    crew: str
    home: Home


def own(store: Store, visit: Visit) -> Own:
    """The orchestrator in the path, if the caller's token began it."""
    id = job_id(visit.path["id"])
    home, crew = store.orchestrators.home(id)
    if not _is_admin(visit.token) and home.access != (visit.token and visit.token.id):
        raise Denied(f"token {_name(visit)} may not act for orchestrator {id}: another began it")
    return Own(id, crew, home)


def refuse_foreign_crew(store: Store, visit: Visit, crew: str, host: str) -> None:
    """A crew on a host belongs to the token that began it there, until that token is revoked."""
    was_there, access = store.orchestrators.owner(crew, host)
    if _is_admin(visit.token) or not was_there or access == (visit.token and visit.token.id):
        return
    if access is None or store.tokens.get(access).revoked_at is None:
        whose = "the database itself" if access is None else f"token {store.tokens.get(access).name!r}"
        raise Denied(f"token {_name(visit)} may not begin crew {crew} on this host: it was begun by {whose} before")


def refuse_foreign_slots(store: Store, found: Own, slots: Iterable[str]) -> None:
    """Refuse what is said of a slot that is not this crew's on this host."""
    mine = {slot.name for slot in store.slots.of_crew(found.crew, found.home.host)}
    for name in slots:
        if name not in mine and any(slot.name == name for slot in store.slots.all()):
            raise Denied(f"slot {name} is not one of crew {found.crew} on {found.home.hostname}")


def refuse_foreign_workers(store: Store, visit: Visit, workers: Iterable[str]) -> None:
    """Refuse what is said of a worker that another token registered; one that nobody knows is harmless."""
    for worker in set(workers):
        if store.workers.is_known(worker):
            visit.speak_for(store, worker)


def to_watch(store: Store, visit: Visit, processes: Iterable[Process]) -> list[Process]:
    """Those whose end the caller may record: it need not watch the workers that others registered."""
    if visit.token is None or _is_admin(visit.token):
        return list(processes)
    return [process for process in processes if store.tokens.speaks_for(visit.token, process.worker_id)]


def report_of(store: Store, visit: Visit, told: Reported) -> Report:
    """What workers reported, if their claims are the caller's to settle."""
    settled: list[Settled] = [settled_of(each) for each in told.outcomes]
    kept = [(json_of(each.value, "checkpoint") or "null", each.job_id, each.token) for each in told.checkpoints]
    if not _is_admin(visit.token):
        claims = {(job, token) for job, token, _ in settled} | {(job, token) for _, job, token in kept}
        holders = {store.claims.holder(job, token) for job, token in claims}
        refuse_foreign_workers(store, visit, (holder for holder in holders if holder is not None))
    return Report(settled, checkpoints=kept)


def _is_admin(token: AccessToken | None) -> bool:
    return token is None or token.allows(ADMIN)


def _name(visit: Visit) -> str:
    return repr(visit.token.name) if visit.token else "?"
