"""Orchestrators over the API: what people ask of them, and all that one asks of its store from a host elsewhere.

Nothing here waits for an API that is away: whoever asks does, by rules of its own, and asks again.
"""

from __future__ import annotations

from rota.core.access import id_of
from rota.core.errors import BadInput
from rota.core.frames.messages import NO_KINDS
from rota.core.jsontext import Raw
from rota.core.times import SECOND
from rota.process.host import host_id, is_this
from rota.store.claims.exchange import Exchange, Report
from rota.store.remote import processes, records
from rota.store.remote.carried import heard, parcels, told
from rota.store.remote.port import Port
from rota.store.workers.crews import Live, PollResult, Process, here
from rota.store.workers.orchestrators import Orchestrators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rota.core.frames.messages import Kinds
    from rota.core.restart import RestartPolicy
    from rota.core.times import Duration, Instant
    from rota.core.worker import Dead
    from rota.store.remote.records import Document
    from rota.store.workers.death import Death

    class _Port(Orchestrators, Port): ...
else:
    _Port = Port

ANSWER_WITHIN = 5.0  # a lease lasts 15 s, and a lost answer must not cost it


class RemoteOrchestrators(_Port):
    """The port for orchestrators. A program is one at most: what it asks after `join` it asks as that one."""

    def join(self, crew: str = "main", home: object = None) -> int:
        self._link.within = ANSWER_WITHIN
        self._remote.orchestrator = int(self._link.post("/orchestrators", {"crew": crew, "home": told(here())})["id"])
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
        spoke = [{"worker_id": worker, "ago": ago / SECOND} for worker, ago in heard]
        answer = self._ask(
            "lease", {"acknowledged_directive": acknowledged_directive, "status": status, "heard": spoke}
        )
        return records.at(answer["lease_expires_at"]) or 0

    def worker_ids(self, id: int, count: int) -> list[str]:
        ids: list[str] = self._ask("worker-ids", {"count": count})["worker_ids"]
        return ids

    def register_worker(self, id: int, slot: str, queue: str, process: Process | None = None) -> str:
        assert process is not None, "a worker elsewhere has a process"
        processes.remember(self._folder, process)
        known = {"worker_id": process.worker_id, "pid": process.pid, "pid_start": process.pid_start}
        self._ask("workers", {"slot": slot, "queue": queue, **known})
        return process.worker_id

    def came_up(self, worker: str, slot: str, concurrency: int = 1, kinds: Kinds = NO_KINDS) -> None:
        known = {"kinds": sorted(kinds.names), "every": kinds.every}
        self._ask("show", {"up": [{"worker_id": worker, "slot": slot, "concurrency": concurrency, **known}]})

    def mirror(self, told: Iterable[tuple[str | None, str]], health: Iterable[tuple[str | None, str]]) -> None:
        said = [{"worker_id": worker, "metadata": Raw(text) if text else None} for text, worker in told]
        self._ask("show", {"said": said, "felt": [{"slot": slot, "health": state} for state, slot in health]})

    def note(self, facts: Iterable[tuple[str, str, str, dict[str, object]]]) -> None:
        names = ("noun", "verb", "which", "details")
        self._ask("show", {"noted": [dict(zip(names, fact, strict=True)) for fact in facts]})

    def mark_dead(self, worker: str, verdict: Dead) -> None:
        self._ask("burials", {"worker_id": worker, "reason": verdict.reason, "text": verdict.text})
        processes.forget(self._folder, worker)

    def end_orphan(self, worker: str) -> None:
        self._ask("burials", {"worker_id": worker})

    def record_death(self, death: Death, last: Report, policy: RestartPolicy) -> tuple[Duration | None, str | None]:
        *first, rest = parcels(last)
        for parcel in first:
            self._remote.orphans.report(death.worker_id, parcel)
        answer = self._ask("certificates", {"death": told(death), "policy": told(policy), **rest})
        processes.forget(self._folder, death.worker_id)
        delay = answer["starts_in"]
        return None if delay is None else round(delay * SECOND), answer["reason"]

    def ends(self, tokens: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        found = self._ask("ends", {"tokens": list(tokens)}) if tokens else []
        return {each["token"]: (each["verb"], each["error"]) for each in found}

    def exchange(self, id: int, number: int, report: Report) -> Exchange:
        """In several steps where it is too much for one; each has a running number of its own."""
        *first, rest = parcels(report)
        refused: list[int] = []
        for parcel in first:
            answer = self._ask("exchange", {"number": number, **parcel})
            number, refused = answer["number"], refused + answer["refused"]
        more: Document = {"idle": [told(each) for each in report.idle], "served": report.served}
        if report.holdings is not None:
            more["holdings"] = list(report.holdings)
        answer = self._ask("exchange", {"number": number, **rest, **more})
        found = heard(Exchange, answer)
        return found.replace(refused=refused + found.refused)

    def number(self, id: int) -> int:
        return int(self._link.get(f"/orchestrators/{id}")["number"])

    def poll(self, id: int, known_directive: int, reconciles: bool = False, polls: bool = False) -> PollResult:
        asked = {"known_directive": known_directive, "reconciles": reconciles, "polls": polls}
        found = heard(PollResult, self._ask("look", asked))
        return found if found.processes is None else found.replace(processes=[])  # none here ever registered there

    def leave(self, id: int) -> None:
        self._link.send("DELETE", f"/orchestrators/{id}")

    def live(self) -> list[Live]:
        return [_live(told) for told in self._link.get("/info")["orchestrators"]]

    def own_host(self) -> str:
        return f"{id_of(self._link.address.token or '')}/{host_id()}"

    def hosts(self) -> dict[str, str]:
        return {each.host: each.hostname for each in self.live()}

    def last_directive(self) -> int:
        return 0  # the API replies once the directive is acknowledged, so nothing is left to wait for

    def host_named(self, name: str) -> str:
        return name

    def drain(self, crew: str, host: str) -> list[Live]:
        asked = self._link.post("/orchestrator/drain", {"crew": crew, "host": self.named(crew, host)})["draining"]
        return [each for each in self.live() if each.pid in asked]

    def named(self, crew: str, host: str) -> str | None:
        """The host that was named, or this one if the crew is here; else none: the API's own is meant."""
        if host != host_id():
            return host
        here = sorted({each.host for each in self.live() if each.crew == crew and is_this(each.host)})
        own = self.own_host()
        if len(here) > 1 and own not in here:
            raise BadInput(f"several hosts say that they are this one: name one by its id, {' or '.join(here)}")
        return own if own in here else here[0] if here else None

    def _own(self, told: list[Document]) -> list[Process]:
        """Those of these processes that an orchestrator of this host started, as it wrote them down itself."""
        named = [heard(Process, each) for each in told]
        return [known for each in named if (known := processes.recall(self._folder, each)) is not None]

    @property
    def _folder(self) -> str:
        return f"{self._store.database.beside}.workers"

    def _ask(self, what: str, body: dict[str, Any]) -> Any:
        return self._link.post(f"/orchestrators/{self._remote.orchestrator}/{what}", body)


def _live(told: Document) -> Live:
    started, reconciled = records.at(told["started_at"]) or 0, records.at(told["last_reconcile_at"])
    place = (told["crew"], told["host_id"], told["hostname"], told["pid"])
    return Live(told["id"], told["status"], *place, started, reconciled, 0, told["version"])
