"""Orchestrators over the API: directives to them, and all that one on another host asks of its store.

So do their orphans. Nothing here waits for an API that is away: the caller has rules of its own and asks again.
"""

from __future__ import annotations

import os

from rota.core.access import id_of
from rota.core.errors import BadInput
from rota.core.frames import outcomes
from rota.core.frames.messages import NO_KINDS
from rota.core.jsontext import Raw, encode
from rota.core.slot import GiveUp, Restart
from rota.core.times import SECOND
from rota.process.host import host_id, is_this
from rota.store.claims.exchange import Exchange, Report
from rota.store.remote import records
from rota.store.remote.client import Port, quoted
from rota.store.remote.records import from_document, to_document
from rota.store.workers.crews import Live, PollResult, Process, here
from rota.store.workers.orchestrators import Orchestrators
from rota.store.workers.orphans import Orphans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Any

    from rota.core.event import NounChanged
    from rota.core.frames.messages import Kinds
    from rota.core.slot import RestartPolicy
    from rota.core.times import Duration, Instant
    from rota.core.worker import Dead
    from rota.store.claims.exchange import Checkpoint, Settled
    from rota.store.remote.records import Document
    from rota.store.store import Store
    from rota.store.workers.death import Death
    from rota.store.workers.orphans import Kept

    class _Orchestrators(Orchestrators, Port): ...

    class _Orphans(Orphans, Port): ...
else:
    _Orchestrators = _Orphans = Port

ANSWER_WITHIN = 5.0  # a lease lasts 15 s, and a lost answer must not cost it (decision 21)
LARGEST_REPORT = 800_000  # bytes of a report in one body
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class RemoteOrchestrators(_Orchestrators):
    """The port for orchestrators. A program is at most one: after `join` it asks as that one."""

    def join(self, crew: str = "main", home: object = None) -> int:
        self._link.within = ANSWER_WITHIN
        joined = self._link.post("/orchestrators", {"crew": crew, "home": to_document(here())})
        self._remote.orchestrator = int(joined["id"])
        return self._remote.orchestrator

    def take_over(self, id: int, crew: str, is_alive: Callable[[Process], bool]) -> list[Process]:
        left = self._own(self._link.get(f"/orchestrators/{id}")["before"])
        living = [process.worker_id for process in left if is_alive(process)]
        return self._own(self._ask("take-over", {"living": living}))

    def renew(
        self,
        id: int,
        acknowledged_directive: int = 0,
        status: str = "running",
        heard: Sequence[tuple[str, Duration]] = (),
    ) -> Instant:
        last_seen = [{"worker_id": worker, "ago": ago / SECOND} for worker, ago in heard]
        body = {"acknowledged_directive": acknowledged_directive, "status": status, "heard": last_seen}
        answer = self._ask("lease", body)
        return records.at(answer["lease_expires_at"]) or 0

    def worker_ids(self, id: int, count: int) -> list[str]:
        ids: list[str] = self._ask("worker-ids", {"count": count})["worker_ids"]
        return ids

    def register_worker(self, id: int, slot: str, queue: str, process: Process | None = None) -> str:
        assert process is not None, "a worker elsewhere has a process"
        remember_process(self._folder, process)
        identity = {"worker_id": process.worker_id, "pid": process.pid, "pid_start": process.pid_start}
        self._ask("workers", {"slot": slot, "queue": queue, **identity})
        return process.worker_id

    def came_up(self, worker: str, slot: str, concurrency: int = 1, kinds: Kinds = NO_KINDS) -> None:
        runs = {"kinds": sorted(kinds.names), "every": kinds.every}
        self._ask("show", {"up": [{"worker_id": worker, "slot": slot, "concurrency": concurrency, **runs}]})

    def mirror(self, told: Iterable[tuple[str | None, str]], health: Iterable[tuple[str | None, str]]) -> None:
        said = [{"worker_id": worker, "metadata": Raw(text) if text else None} for text, worker in told]
        self._ask("show", {"said": said, "felt": [{"slot": slot, "health": state} for state, slot in health]})

    def note(self, facts: Iterable[NounChanged]) -> None:
        noted = [
            {"noun": fact.noun, "verb": fact.verb, "which": fact.subject, "details": fact.details} for fact in facts
        ]
        self._ask("show", {"noted": noted})

    def mark_dead(self, worker: str, verdict: Dead) -> None:
        self._ask("burials", {"worker_id": worker, "reason": verdict.reason, "text": verdict.text})
        forget_process(self._folder, worker)

    def end_orphan(self, worker: str) -> None:
        self._ask("burials", {"worker_id": worker})

    def record_death(self, death: Death, last: Report, policy: RestartPolicy) -> Restart | GiveUp:
        *first, rest = report_bodies(last)
        for body in first:
            self._remote.orphans.report(death.worker_id, body)
        answer = self._ask("certificates", {"death": to_document(death), "policy": to_document(policy), **rest})
        forget_process(self._folder, death.worker_id)
        delay = answer["starts_in"]
        return GiveUp(answer["reason"]) if delay is None else Restart(round(delay * SECOND))

    def ends(self, tokens: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        ends = self._ask("ends", {"tokens": list(tokens)}) if tokens else []
        return {end["token"]: (end["verb"], end["error"]) for end in ends}

    def exchange(self, id: int, number: int, report: Report) -> Exchange:
        """Exchange in several requests if one body cannot hold the report; each has a running number of its own."""
        *first, rest = report_bodies(report)
        refused: list[int] = []
        for body in first:
            answer = self._ask("exchange", {"number": number, **body})
            number, refused = answer["number"], refused + answer["refused"]
        more: Document = {"idle": [to_document(idle) for idle in report.idle], "served": report.served}
        if report.holdings is not None:
            more["holdings"] = list(report.holdings)
        exchange = from_document(Exchange, self._ask("exchange", {"number": number, **rest, **more}))
        return exchange.replace(refused=refused + exchange.refused)

    def number(self, id: int) -> int:
        return int(self._link.get(f"/orchestrators/{id}")["number"])

    def poll(self, id: int, known_directive: int, reconciles: bool = False, polls: bool = False) -> PollResult:
        body = {"known_directive": known_directive, "reconciles": reconciles, "polls": polls}
        result = from_document(PollResult, self._ask("look", body))
        # No process of this host ever registered with the API as one of its own host.
        return result if result.processes is None else result.replace(processes=[])

    def leave(self, id: int) -> None:
        self._link.send("DELETE", f"/orchestrators/{id}")

    def live(self) -> list[Live]:
        documents = self._link.get("/info")["orchestrators"]
        return [
            from_document(Live, document, host=document["host_id"], acknowledged_directive=0) for document in documents
        ]

    def own_host(self) -> str:
        return f"{id_of(self._link.address.token or '')}/{host_id()}"

    def hosts(self) -> dict[str, str]:
        return {orchestrator.host: orchestrator.hostname for orchestrator in self.live()}

    def last_directive(self) -> int:
        # The API replies once the directive is acknowledged, so nothing is left to wait for.
        return 0

    def host_named(self, name: str) -> str:
        return name

    def drain(self, crew: str, host: str) -> list[Live]:
        pids = self._link.post("/orchestrator/drain", {"crew": crew, "host": self.named(crew, host)})["draining"]
        return [orchestrator for orchestrator in self.live() if orchestrator.pid in pids]

    def named(self, crew: str, host: str) -> str | None:
        """Return the host that was named, or this one if the crew runs here; None means the host of the API."""
        if host != host_id():
            return host
        ids = sorted({live.host for live in self.live() if live.crew == crew and is_this(live.host)})
        own = self.own_host()
        if len(ids) > 1 and own not in ids:
            raise BadInput(f"several hosts say that they are this one: name one by its id, {' or '.join(ids)}")
        return own if own in ids else ids[0] if ids else None

    def _own(self, documents: list[Document]) -> list[Process]:
        """Return those processes that an orchestrator of this host started, as it wrote them down itself."""
        named = [from_document(Process, document) for document in documents]
        return [own for process in named if (own := recall_process(self._folder, process)) is not None]

    @property
    def _folder(self) -> str:
        return _folder(self._store)

    def _ask(self, what: str, body: dict[str, Any]) -> Any:
        return self._link.post(f"/orchestrators/{self._remote.orchestrator}/{what}", body)


class RemoteOrphans(_Orphans):
    """The port for a worker whose orchestrator is gone."""

    def begin(
        self, worker: str, in_hand: Collection[int], outcomes: Sequence[Settled], checkpoints: Sequence[Kept] = ()
    ) -> frozenset[int]:
        self._link.within = ANSWER_WITHIN
        report = Report(outcomes, checkpoints=[(value, job, token) for job, token, value in checkpoints])
        *first, rest = report_bodies(report)
        for body in first:
            self.report(worker, body)
        return frozenset(self._ask(worker, "begin", {"in_hand": sorted(in_hand), **rest})["held"])

    def renew(self, worker: str, claims: Sequence[tuple[int, int]]) -> frozenset[int]:
        body = {"claims": [{"job_id": job, "token": token} for job, token in claims]}
        return frozenset(self._ask(worker, "renew", body)["held"])

    def keep_checkpoint(self, worker: str, kept: Kept) -> None:
        job, token, value = kept
        self._report(worker, Report(checkpoints=[(value, job, token)]))

    def settle(self, worker: str, settled: Settled) -> None:
        self._report(worker, Report([settled]))

    def end(self, death: Death, last: Sequence[Settled] = ()) -> None:
        *first, rest = report_bodies(Report(last))
        for body in first:
            self.report(death.worker_id, body)
        self._ask(death.worker_id, "end", {"death": to_document(death), **rest})
        forget_process(_folder(self._store), death.worker_id)

    def report(self, worker: str, body: Document) -> None:
        """Send one body of a report."""
        self._ask(worker, "report", body)

    def _report(self, worker: str, report: Report) -> None:
        for body in report_bodies(report):
            self.report(worker, body)

    def _ask(self, worker: str, what: str, body: dict[str, Any]) -> Any:
        return self._link.post(f"/workers/{quoted(worker)}/orphan/{what}", body)


def report_bodies(report: Report) -> list[Document]:
    """Return the outcomes and checkpoints of a report in as few bodies as hold them; callers add more to the last."""
    entries = [("outcomes", _outcome(settled)) for settled in report.outcomes]
    entries += [("checkpoints", _checkpoint(checkpoint)) for checkpoint in report.checkpoints]
    bodies: list[Document] = [{}]
    size = 0
    for name, entry in entries:
        weight = len(encode(entry).encode())
        if size and size + weight > LARGEST_REPORT:
            bodies.append({})
            size = 0
        size += weight
        bodies[-1].setdefault(name, []).append(entry)
    return bodies


def _outcome(settled: Settled) -> Document:
    job, token, outcome = settled
    return {"job_id": job, "token": token, **outcomes.encode(outcome)}


def _checkpoint(checkpoint: Checkpoint) -> Document:
    text, job, token = checkpoint
    return {"job_id": job, "token": token, "value": Raw(text)}


# The API names the workers that were left behind, but never their processes: an API, or whoever speaks for it, could
# otherwise choose a process of this host to be ended. So each host keeps a file for each process that it started
# (decision 21).


def _folder(store: Store) -> str:
    return f"{store.database.beside}.workers"


def remember_process(folder: str, process: Process) -> None:
    """Write down which process a worker is. A file that exists already stays as it is."""
    os.makedirs(folder, 0o700, exist_ok=True)
    try:
        descriptor = os.open(
            _path(folder, process.worker_id), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except FileExistsError:
        return
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(f"{process.pid} {process.pid_start}")


def recall_process(folder: str, process: Process) -> Process | None:
    """Return the process that this worker is; None if no orchestrator of this host wrote that down."""
    try:
        descriptor = os.open(_path(folder, process.worker_id), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, encoding="ascii") as file:
            pid, pid_start = map(int, file.read(100).split())
    except (OSError, ValueError):
        return None
    return process.replace(pid=pid, pid_start=pid_start)


def forget_process(folder: str, worker: str) -> None:
    """Remove the file of a worker that is gone, once the store knows."""
    try:
        os.unlink(_path(folder, worker))
    except (OSError, ValueError):
        pass


def _path(folder: str, worker: str) -> str:
    if not _LETTERS.issuperset(worker):
        raise ValueError(f"{worker!r} is not a worker's id")
    return os.path.join(folder, worker)
