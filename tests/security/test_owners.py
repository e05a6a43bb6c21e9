"""What a hostile token with the scope `work` tries against what is not its own, at a real server with real tokens."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Claim, Done
from rota.core.errors import Denied, NotFound, RotaError, Stale
from rota.core.event import SlotChanged, WorkerChanged
from rota.core.job import ACTIVE, NewJob
from rota.core.schedule import NewSchedule
from rota.core.slot import RestartPolicy
from rota.core.times import MINUTE
from rota.core.worker import Dead
from rota.process.host import process_start
from rota.process.watch import is_alive
from rota.settings import Settings
from rota.store.claims.exchange import Idle, Report
from rota.store.open import implicit_id, open_store
from rota.store.remote.orchestrators import forget_process, recall_process
from rota.store.remote.store import RemoteStore
from rota.store.workers.crews import Process
from rota.store.workers.death import Death
from tests.api.servers import Server
from tests.support.eventually import eventually
from tests.support.shell import environment
from tests.support.stores import STORES, make_store
from tests.support.tiers import times
from tests.support.work import add, add_many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rota.core.frames.assignment import Assignment
    from rota.store.store import Store
    from tests.api.servers import Client

    Attack = Callable[[Store], object]


@pytest.fixture(params=["sqlite"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path, kind=request.param)
    yield server
    server.end()


@pytest.fixture
def mallory(server: Server) -> Client:
    """A client whose token may only work."""
    return server.client(server.token("mallory", "work"))


on_both_stores = pytest.mark.parametrize("server", STORES, indirect=True)


def _captured(server: Server, client: Client, path: object) -> tuple[int, str, int]:
    """A job that this client claimed and says to write to this file; the job, the worker and the claim's token."""
    server.shell.add()
    worker = client.post("/api/v1/workers", name="loop")["id"]
    (job,) = client.post("/api/v1/claims", worker_id=worker)
    id, token = job["id"], job["claim"]["token"]
    client.post(f"/api/v1/jobs/{id}/claim/capture", token=token, transcript_path=str(path), stderr_path=str(path))
    return id, worker, token


@on_both_stores
def test_a_file_that_was_named_over_http_is_opened_for_nobody_while_the_run_lives_or_later(
    server: Server, mallory: Client
) -> None:
    """Neither once the worker is forgotten, nor when someone with more rights named it, nor at a terminal here."""
    secret = server.shell.folder / "secret"
    secret.write_text("the admin token")
    reader = server.client(server.token("reader", "read"))
    for client in (mallory, server.client()):
        id, worker, token = _captured(server, client, secret)
        output = f"/api/v1/jobs/{id}/output"
        for way in ("", "?stream=stderr", "?wait=1&offset=0"):
            reader.refused(403, "GET", output + way)
        client.post(f"/api/v1/jobs/{id}/claim/release", token=token)
        client.delete(f"/api/v1/workers/{worker}")
        with server.store() as store:
            store.history.prune(0, 1000)
            assert all(each.id != worker for each in store.workers.list(gone_too=True)), "nobody knows it any more"
        assert "said over HTTP" in reader.refused(403, "GET", output)["detail"]
        told = server.shell.call("logs", id)
        assert told.returncode == 6 and "said over HTTP" in told.stderr and "admin token" not in told.stdout


def test_a_file_that_was_named_over_http_is_not_shown_as_that_of_a_later_run(server: Server, mallory: Client) -> None:
    secret = server.shell.folder / "secret"
    secret.write_text("the admin token")
    id, _, token = _captured(server, mallory, secret)
    mallory.post(f"/api/v1/jobs/{id}/claim/release", token=token)
    with server.store() as store:
        claim = store.claims.claim(id, store.workers.register("here").id)
        assert store.claims.captured(id).transcript_path is None
        store.claims.settle(claim, Done())
        assert store.claims.captured(id).transcript_path is None
    server.client().refused(404, "GET", f"/api/v1/jobs/{id}/output")


def test_a_file_that_a_worker_beside_the_database_named_is_shown(server: Server) -> None:
    written = server.shell.folder / "written"
    written.write_text("by the handler")
    with server.store() as store:
        claim = store.claims.claim(store.jobs.add(NewJob("A")).id, store.workers.register("here").id)
        store.claims.capture(claim, str(written), None)
        for _ in range(2):
            assert server.client().get(f"/api/v1/jobs/{claim.job_id}/output")["text"] == "by the handler"
            store.claims.settle(claim, Done())


class Host:
    """An orchestrator with one worker, played over HTTP as a program of a token's would."""

    def __init__(self, server: Server, name: str, closing: ExitStack, *scopes: str) -> None:
        self.store = far(server, name, closing, *scopes)
        self.id = self.store.orchestrators.join()
        (slot,) = self.store.slots.take("main", "", {"tag": 1})
        self.slot = slot.name
        (self.worker,) = self.store.orchestrators.worker_ids(self.id, 1)
        process = Process(self.worker, 4, 5, self.slot)
        self.store.orchestrators.register_worker(self.id, self.slot, "tag", process)
        self.store.orchestrators.came_up(self.worker, self.slot)

    def claim(self) -> Assignment:
        idle = [Idle(self.worker, "tag")]
        (claim,) = self.store.orchestrators.exchange(self.id, 0, Report(idle=idle)).claims
        return claim


def far(server: Server, name: str, closing: ExitStack, *scopes: str) -> Store:
    """The store over HTTP, with a new token of this name; unless told otherwise it may only work."""
    url = server.url.replace("://", f"://{server.token(name, *(scopes or ('work',)))}@")
    return closing.enter_context(open_store(url, Settings()))


@on_both_stores
def test_no_operation_of_a_program_touches_what_another_token_began(server: Server) -> None:
    with ExitStack() as closing:
        here = closing.enter_context(server.store())
        add_many(here, 2, queue="tag")
        ada, mallory = Host(server, "ada", closing), Host(server, "mallory", closing)
        looping = far(server, "loop", closing)
        worker = looping.workers.register("loop").id
        taken, held = looping.claims.claim(2, worker), ada.claim()
        far_claim = Claim(held.job_id, held.token, ada.worker, 0, None)
        before = _everything(here)
        for operation in _attacks(mallory, ada, taken, far_claim):
            with pytest.raises((Denied, NotFound)):
                operation(mallory.store)
            assert _everything(here) == before
        ada.store.orchestrators.exchange(ada.id, 1, Report([(held.job_id, held.token, Done())]))
        looping.claims.settle(taken, Done())
        assert [job.status for job in here.jobs.list()] == ["done", "done"]


def _attacks(mine: Host, other: Host, taken: Claim, held: Claim) -> list[Attack]:
    """What Mallory may try: on a claim by hand, on one of a crew, and on the crew itself, from her own orchestrator."""
    forged = [(held.job_id, held.token, Done('"forged"'))]
    death = Death(other.worker, mine.slot, "signaled", "x")
    own_death = death.replace(worker_id=mine.worker, slot=other.slot)
    policy, process = RestartPolicy(), Process("worker-zzzzzzzz", 1, 1, other.slot)
    return [
        *_attacks_on_claim(taken, death),
        *_attacks_on_claim(held, death),
        lambda store: store.claims.take(person="ada@laptop"),
        lambda store: store.orphans.end(own_death),
        lambda store: store.orchestrators.exchange(mine.id, 0, Report(forged)),
        lambda store: store.orchestrators.exchange(mine.id, 0, Report(checkpoints=[("1", held.job_id, held.token)])),
        lambda store: store.orchestrators.record_death(death, Report(), policy),
        lambda store: store.orchestrators.record_death(own_death, Report(), policy),
        lambda store: store.orchestrators.record_death(death.replace(worker_id=mine.worker), Report(forged), policy),
        lambda store: store.orchestrators.came_up(other.worker, mine.slot),
        lambda store: store.orchestrators.came_up(mine.worker, other.slot),
        lambda store: store.orchestrators.mirror([("{}", other.worker)], []),
        lambda store: store.orchestrators.mirror([], [("dead", other.slot)]),
        lambda store: store.orchestrators.register_worker(mine.id, other.slot, "tag", process),
        *(
            _as_orchestrator(other.id, mine.id, attack)
            for attack in (
                lambda store: store.orchestrators.register_worker(0, mine.slot, "tag", process),
                lambda store: store.orchestrators.exchange(other.id, 1, Report(holdings=[])),
                lambda store: store.orchestrators.renew(other.id, 9),
                lambda store: store.orchestrators.poll(other.id, -1),
                lambda store: store.orchestrators.number(other.id),
                lambda store: store.orchestrators.take_over(other.id, "main", lambda _: False),
                lambda store: store.orchestrators.leave(other.id),
                lambda store: store.slots.take("main", "", {}),
            )
        ),
    ]


def _attacks_on_claim(claim: Claim, death: Death) -> list[Attack]:
    job, token, worker = claim.job_id, claim.token, claim.worker_id
    return [
        lambda store: store.claims.settle(claim, Done('"forged"')),
        lambda store: store.claims.renew(claim, 1),
        lambda store: store.claims.release(claim),
        lambda store: store.claims.checkpoint(claim, "forged"),
        lambda store: store.claims.capture(claim, "/forged", None),
        lambda store: store.link and store.link.post(f"/jobs/{job}/claim/results", {"token": token}),
        lambda store: store.claims.take(worker),
        lambda store: store.workers.heartbeat(worker, {"cpu": 1}),
        lambda store: store.workers.deregister(worker),
        lambda store: store.orphans.begin(worker, [token], []),
        lambda store: store.orphans.renew(worker, [(job, token)]),
        lambda store: store.orphans.settle(worker, (job, token, Done())),
        lambda store: store.orphans.keep_checkpoint(worker, (job, token, "1")),
        lambda store: store.orphans.end(death.replace(worker_id=worker)),
        lambda store: store.orchestrators.mark_dead(worker, Dead("lost", "x")),
        lambda store: store.orchestrators.end_orphan(worker),
    ]


def _as_orchestrator(id: int, own: int, attack: Attack) -> Attack:
    """The attack by a program that says that it is this orchestrator."""

    def act(store: Store) -> object:
        assert isinstance(store, RemoteStore)
        store.orchestrator = id
        try:
            return attack(store)
        finally:
            store.orchestrator = own

    return act


def _everything(store: Store) -> object:
    """What an attack must not change; a beat of the attacker's own is no harm."""
    jobs, slots = store.jobs.list(), store.slots.all()
    workers = [each.replace(last_heartbeat_at=0, heartbeat_count=0) for each in store.workers.list(gone_too=True)]
    living = [(each.id, each.status, each.acknowledged_directive) for each in store.orchestrators.live()]
    return jobs, slots, workers, living, [store.claims.runs(job.id) for job in jobs]


def test_an_outcome_for_a_claim_that_nobody_holds_is_refused(server: Server) -> None:
    with ExitStack() as closing:
        here, mallory = closing.enter_context(server.store()), Host(server, "mallory", closing)
        job = add(here)
        for operation in (
            lambda claim: mallory.store.claims.settle(claim, Done()),
            mallory.store.claims.renew,
            lambda claim: mallory.store.claims.checkpoint(claim, 1),
            lambda claim: mallory.store.claims.capture(claim, "/x", None),
        ):
            with pytest.raises(Stale, match="stands for no claim"):
                operation(Claim(job, 1, mallory.worker, 0, None))
        report = Report([(job, 1, Done('"forged"'))], checkpoints=[("1", job, 1)])
        assert mallory.store.orchestrators.exchange(mallory.id, 0, report).refused == [1]
        assert here.jobs.get(job).checkpoint is None and here.jobs.get(job).status == "ready"


def test_whoever_guesses_the_next_token_settles_nobodys_claim(server: Server) -> None:
    """Asked before the claim is made, decided when it is: the question waits for the lock behind which it is made."""
    with ExitStack() as closing:
        here = closing.enter_context(server.store())
        worker = here.workers.register("honest").id
        stores = [far(server, f"mallory {n}", closing) for n in range(2)]
        answers, guess, over = [0, 0], [Claim(0, 0, "", 0, None)], threading.Event()

        def attack(n: int) -> None:
            while not over.is_set():
                try:
                    stores[n].claims.settle(guess[0], Done('"forged"'))
                except RotaError:
                    pass
                answers[n] += 1

        threads = [threading.Thread(target=attack, args=(n,)) for n in range(len(stores))]
        last = 0
        try:
            for thread in threads:
                thread.start()
            for _ in range(times(25, 200)):
                job = add(here)
                guess[0] = Claim(job, last + 1, "", 0, None)
                _answered(answers)
                claim = here.claims.claim(job, worker)
                last = claim.token
                _answered(answers)
                assert here.jobs.get(job).status == ACTIVE and claim.token == guess[0].token
                here.claims.settle(claim, Done('"honest"'))
        finally:
            over.set()
            for thread in threads:
                thread.join()


def _answered(answers: list[int]) -> None:
    """Wait until each attacker has an answer to what it asks now."""
    before = list(answers)
    eventually(lambda: all(now >= was + 2 for now, was in zip(answers, before, strict=True)))


@on_both_stores
def test_nobody_chooses_the_id_of_a_worker_such_as_that_of_a_person_or_of_one_that_is_forgotten(server: Server) -> None:
    """A worker of that id would be the attacker's, and with it the claims that the person makes or that it once had."""
    with ExitStack() as closing:
        here = closing.enter_context(server.store())
        mallory, ada = Host(server, "mallory", closing), Host(server, "ada", closing)
        (forgotten,) = ada.store.orchestrators.worker_ids(ada.id, 1)
        for chosen in (implicit_id("ada@laptop"), "worker-00000000", forgotten, here.new_worker_id()):
            with pytest.raises(Denied, match="is no id that was made for orchestrator"):
                mallory.store.orchestrators.register_worker(
                    mallory.id, mallory.slot, "tag", Process(chosen, 4, 5, mallory.slot)
                )
            assert not here.workers.is_known(chosen)
        id = add(here)
        claim = here.claims.claim(id, person="ada@laptop")
        with pytest.raises(Denied):
            mallory.store.claims.settle(claim, Done('"forged"'))
        here.claims.settle(claim, Done('"honest"'))
        assert here.jobs.get(id).result == "honest"
        process = Process(mallory.worker, 4, 5, mallory.slot)
        assert (
            mallory.store.orchestrators.register_worker(mallory.id, mallory.slot, "tag", process) == mallory.worker
        ), "once more"


def test_a_process_that_only_an_api_names_is_nobody_that_is_taken_over_or_ended(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is signalled is what the host itself wrote down, and what says of itself whose it is."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    asked: list[Process] = []

    def is_there(process: Process) -> bool:
        asked.append(process)
        return is_alive(process)

    with ExitStack() as closing:
        here = closing.enter_context(server.store())
        bystander = _bystander(closing, ROTA_WORKER_ID="worker-00000000")
        ada = Host(server, "ada", closing)
        rows = "UPDATE worker SET pid = {}, pid_start = {} WHERE id = '{}'"
        start = process_start(bystander)
        with here.database.write():
            here.database._connection.execute(rows.format(bystander, start, ada.worker))  # type: ignore[attr-defined]
        assert ada.store.orchestrators.take_over(ada.store.orchestrators.join(), "main", is_there) == []
        assert [(each.pid, each.pid_start) for each in asked] == [(4, 5)], "as this host wrote it down"
        forget_process(f"{ada.store.database.beside}.workers", ada.worker)
        told = Process(ada.worker, bystander, start, ada.slot)
        assert recall_process(f"{ada.store.database.beside}.workers", told) is None
        for worker in ("../../rota.db", "worker-00000000/..", ""):
            assert recall_process(f"{ada.store.database.beside}.workers", told.replace(worker_id=worker)) is None
        assert not is_alive(told), "it says that it is another worker's"
        assert is_alive(told.replace(worker_id="worker-00000000"))


def test_a_process_that_does_not_say_whose_it_is_is_no_match() -> None:
    """As one does whose environment cannot be read, because it is another user's or hides it."""
    with ExitStack() as closing:
        silent = _bystander(closing)
        told = Process("worker-00000000", silent, process_start(silent), "worker:tag:0")
        assert not is_alive(told) and not is_alive(told.replace(pid_start=None))


def _bystander(closing: ExitStack, **env: str) -> int:
    """A process that does nothing."""
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    process = closing.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment(**env), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    )
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    return process.pid


@on_both_stores
def test_a_token_declares_no_schedule_of_another_and_none_without_the_scope_to_add_jobs(server: Server) -> None:
    """Through a schedule it would choose the queue, the kind and the payload of jobs."""
    with ExitStack() as closing:
        here = closing.enter_context(server.store())
        honest, mine = NewSchedule("report", "0 6 * * *", queue="night"), NewSchedule("mine", "0 6 * * *", queue="tag")
        here.schedules.declare([honest])
        by_hand = NewSchedule("by-hand", "0 6 * * *")
        here.schedules.add(by_hand)
        ada = Host(server, "ada", closing, "work", "enqueue")
        ada.store.schedules.declare([honest, NewSchedule("adas", "0 6 * * *")])
        known = here.schedules.list()
        working, both = Host(server, "mallory", closing), Host(server, "eve", closing, "work", "enqueue")
        for host, new, beside in ((working, [mine], []), (both, [], [mine])):
            for each in [*new, *(schedule.new.replace(cron="* * * * * *", payload_json="[1]") for schedule in known)]:
                with pytest.raises(Denied, match=f"may not declare schedule {each.name}"):
                    host.store.schedules.declare([*beside, each])
                assert here.schedules.list() == known
        both.store.schedules.declare([mine])
        both.store.schedules.declare([mine.replace(cron="* * * * * *")])
        assert here.schedules.get("mine").cron == "* * * * * *"
        here.tokens.revoke(next(token.id for token in here.tokens.list() if token.name == "eve"))
        ada.store.schedules.declare([mine])
        assert here.schedules.get("mine").cron == mine.cron, "of a token that is revoked it may be taken over"


@on_both_stores
def test_a_claim_that_waits_gets_no_job_once_its_token_is_revoked(server: Server, mallory: Client) -> None:
    worker = mallory.post("/api/v1/workers", name="loop")["id"]
    with ThreadPoolExecutor() as pool, server.store() as store:
        waiting = pool.submit(mallory.call, "POST", "/api/v1/claims", {"worker_id": worker, "wait": 30})
        beats = store.workers.get(worker).heartbeat_count
        eventually(lambda: store.workers.get(worker).heartbeat_count > beats)
        (token,) = [token for token in store.tokens.list() if token.name == "mallory"]
        store.tokens.revoke(token.id)
        id = add(store)
        answer = waiting.result(60)
        assert (answer.status_code, store.jobs.get(id).status) == (401, "ready")


@pytest.mark.parametrize("kind", STORES)
def test_a_change_that_waits_for_its_turn_is_not_made_once_its_token_is_revoked(kind: str, tmp_path: Path) -> None:
    """Proved before the wait and revoked during it: what decides is how things stand when the change is made."""
    with make_store(kind, tmp_path) as store:
        token, _ = store.tokens.create("mallory", ["admin"])
        store.tokens.revoke(token.id)
        add(store)  # from now on its queue is known, so that one more may be added in one message
        before = store.events.last()
        store.access = token
        for change in (
            lambda: store.workers.register("loop"),
            store.orchestrators.join,
            lambda: store.queues.pause("default"),
            lambda: add(store),
        ):
            with pytest.raises(Denied, match="was revoked"):
                change()
        assert store.events.last() == before
        store.access = None
        add(store)


@on_both_stores
def test_the_token_that_held_a_job_once_reads_nothing_that_others_said_of_it_since(
    server: Server, mallory: Client
) -> None:
    """To say once more what became of a claim is no error; the job has been another's meanwhile."""
    worker = mallory.post("/api/v1/workers", name="loop")["id"]
    with server.store() as here:
        honest = here.workers.register("honest").id
        for verb, body in (
            ("release", {}),
            ("settle", {"outcome": "released"}),
            ("settle", {"outcome": "snoozed", "delay": 0.000001}),
            ("settle", {"outcome": "failed", "error": "x"}),
        ):
            id = here.jobs.add(NewJob("A", verb, payload="p", max_attempts=9)).id
            (taken,) = mallory.post("/api/v1/claims", worker_id=worker, queue=verb)
            told = {"token": taken["claim"]["token"], **body}
            path = f"/api/v1/jobs/{id}/claim/{verb}?details=true"
            assert mallory.post(path, **told)["payload"] == "p", "nobody has had it since"
            eventually(partial(_is_ready_again, here, id))
            here.claims.settle(here.claims.claim(id, honest), Done('"secret"'))
            assert mallory.post(path, **told) == {"id": id, "status": "done"}
            both = server.client(server.token(f"both {id}", "work", "read"))
            assert both.get(f"/api/v1/jobs/{id}")["result"] == "secret"


def _is_ready_again(store: Store, id: int) -> bool:
    store.tick()
    return store.jobs.get(id).status == "ready"


@on_both_stores
def test_nothing_is_told_of_a_slot_or_a_worker_that_is_not_there(server: Server) -> None:
    """A slot that is made later begins without a history, and the log has no fact of what never was."""
    with ExitStack() as closing:
        here, mallory = closing.enter_context(server.store()), Host(server, "mallory", closing)
        port, later, nobody = mallory.store.orchestrators, "worker:tag:7", "worker-zzzzzzzz"
        before = here.events.last()
        (free,) = port.worker_ids(mallory.id, 1)
        with pytest.raises(NotFound, match="there is no slot worker:tag:7"):
            port.register_worker(mallory.id, later, "tag", Process(free, 4, 5, later))
        port.mirror([("{}", nobody)], [("dead", later), ("stopping", later)])
        port.note([SlotChanged("leak", later, {}), WorkerChanged("leak", nobody, {})])
        port.record_death(Death(nobody, later, "signaled", "x", asked=True, exit_code=0), Report(), RestartPolicy())
        port.record_death(Death(mallory.worker, later, "signaled", "forged"), Report(), RestartPolicy())
        (fact,) = [fact for event in here.events.after(before) for fact in event.facts]
        assert isinstance(fact, WorkerChanged) and (fact.verb, fact.subject) == ("die", mallory.worker)
        certificate = here.workers.certificate(mallory.worker)
        assert certificate is not None and certificate.slot == mallory.slot
        assert here.workers.deaths(slot=later) == []


def test_a_schedule_that_a_token_declared_first_is_the_applications_once_it_declares_the_same(server: Server) -> None:
    """Otherwise whoever foresees it could change later what the application believes to be so."""
    with ExitStack() as closing:
        here = closing.enter_context(server.store())
        report = NewSchedule("report", "0 6 * * *", queue="night")
        mallory = Host(server, "mallory", closing, "work", "enqueue")
        mallory.store.schedules.declare([report])
        here.schedules.declare([report])
        with pytest.raises(Denied, match="may not declare schedule report"):
            mallory.store.schedules.declare([report.replace(cron="* * * * * *")])
        last = here.events.last()
        here.schedules.declare([report])
        assert here.events.last() == last, "it is so already"


def test_the_worst_that_a_token_does_to_jobs_is_what_the_page_says(server: Server) -> None:
    """A table that promises less than can be done would be as wrong as one that promises more."""
    with ExitStack() as closing:
        here = closing.enter_context(server.store())
        waiting = here.jobs.add(NewJob("A", "tag", payload={"secret": 1}, key="k", at=here.now() + MINUTE)).id
        ready = add(here, queue="tag")
        then = here.jobs.add(NewJob("B", "tag", after=[ready])).id

        adding = far(server, "adding", closing, "enqueue")
        assert adding.jobs.add(NewJob("A", "tag", key="k")).payload == {"secret": 1}, "read by its key"
        adding.jobs.add(NewJob("A", "tag", payload={"secret": 2}, key="k", debounce=MINUTE))
        assert here.jobs.get(waiting).payload == {"secret": 2}, "and replaced while it waits"
        _lack_a_scope(
            lambda: adding.jobs.get(ready),
            lambda: adding.jobs.cancel(ready),
            lambda: adding.workers.register("loop"),
        )

        working = far(server, "working", closing, "work")
        claim = working.claims.claim(ready, working.workers.register("loop").id)
        working.claims.settle(claim, Done('"forged"'))
        (needed,) = here.jobs.results(then)
        assert needed.result == "forged", "of a job that it took, in all its name"
        _lack_a_scope(lambda: working.jobs.add(NewJob("C")), lambda: working.jobs.get(then))

        reading = far(server, "reading", closing, "read")
        assert reading.jobs.get(then).title == "B"
        _lack_a_scope(lambda: reading.jobs.add(NewJob("C")), lambda: reading.workers.register("loop"))


def _lack_a_scope(*operations: Callable[[], object]) -> None:
    for operation in operations:
        with pytest.raises(Denied, match="needs the scope"):
            operation()
