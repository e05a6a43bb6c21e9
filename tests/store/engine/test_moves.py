"""The state tables are true: what statements do is in them, and what is not in them is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rota.core import claim, job, orchestrator, slot, worker
from rota.core.claim import Done
from rota.core.errors import Conflict
from rota.core.orchestrator import RUNNING, STARTING, STOPPING
from rota.core.slot import GiveUp, Restart, RestartPolicy
from rota.core.state_machine import ImpossibleMove
from rota.process.host import host_id
from rota.store.claims.exchange import Idle, Report
from rota.store.engine import transaction
from rota.store.engine.statements import FOLDER, read_statements
from rota.store.engine.transaction import STATEMENT_MOVES, check_statement
from rota.store.workers.crews import Process
from rota.store.workers.death import Death
from tests.support.stores import rows
from tests.support.work import add

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.store.store import Store

STATES = {"slot": slot.STATES, "worker": worker.STATES, "orchestrator": orchestrator.STATES}
CHECKED_WITH_ITS_VALUES = {"slot.move", "orchestrator.renew"}  # by `Transaction.check_move`
INSERTS = {"slot.make", "worker.insert", "orchestrator.join"}
NAME = "worker:tag:0"


class Crew:
    """An orchestrator with one slot, and the worker that it has started in it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.id = store.orchestrators.join()
        store.slots.take("main", host_id(), {"tag": 1})
        self.worker = self.start()

    def start(self) -> str:
        process = Process(self.store.new_worker_id(), 4711, 12345, NAME)
        self.worker = self.store.orchestrators.register_worker(self.id, NAME, "tag", process)
        return self.worker

    def come_up(self) -> None:
        self.store.orchestrators.came_up(self.worker, NAME)

    def die(self, policy: RestartPolicy | None = None, **facts: object) -> Restart | GiveUp:
        death = Death(self.worker, NAME, "signaled", "signal 9", None, 9).replace(**facts)
        return self.store.orchestrators.record_death(death, Report(), policy or RestartPolicy())

    def claim(self) -> None:
        number = self.store.orchestrators.number(self.id)
        report = Report(idle=[Idle(self.worker, "tag")])
        assert self.store.orchestrators.exchange(self.id, number, report).claims


def written_by_sql() -> Iterator[tuple[str, str, str]]:
    """Yield each statement that writes a status, the noun whose status it is, and the text of the statement."""
    own = Path(transaction.__file__).parent.parent / "postgres" / "overrides.sql"
    for path in (*sorted(Path(FOLDER).glob("*.sql")), own):
        for name, text in read_statements(str(path)).items():
            for noun in (*STATES, "job"):
                changed = re.search(rf"UPDATE {noun} SET(.*?)(?:WHERE|$)", text, re.DOTALL)
                made = re.search(rf"INSERT INTO {noun} \((.*?)\)", text, re.DOTALL)
                is_changed = changed and ("status = " in changed[1] or "status = CASE" in text)
                if is_changed or (made and re.search(r"\bstatus\b", made[1])):
                    yield name if "." in name else f"{path.stem}.{name}", noun, text


def test_every_statement_that_writes_a_status_is_checked() -> None:
    written = {name.removesuffix(" many") for name, noun, _ in written_by_sql() if noun != "job"}
    assert written == set(STATEMENT_MOVES) | CHECKED_WITH_ITS_VALUES


def test_statements_that_write_a_status_name_only_states_of_the_tables() -> None:
    tables = {**STATES, "job": job.STATES}
    others = {"worker": {job.ACTIVE}, "job": {job.DONE}}  # of the jobs that a worker holds or that a job waits for
    nouns = set()
    for name, noun, text in written_by_sql():
        states = set(re.findall(r"status (?:=|<>) '(\w+)'", text))
        for listed in re.findall(r"status (?:NOT )?IN \((.*?)\)", text):
            states |= set(re.findall(r"'(\w+)'", listed))
        assert states - others.get(noun, set()) <= set(tables[noun]), name
        nouns.add(noun)
    assert nouns == set(tables)


def calls(name: str, crew: Crew) -> list[dict[str, Any]]:
    """The parameters of a statement, in every form that decides which move it makes."""
    match name:
        case "slot.come_up":
            return [{"name": NAME, "worker": crew.worker}]
        case "slot.stop":
            return [{"name": NAME}]
        case "slot.empty":
            return [{"orchestrator": crew.id}]
        case "orphan.empty_slot":
            return [{"worker": crew.worker}]
        case "worker.ready":
            return [{"id": crew.worker, "concurrency": 1, "kinds": None}]
        case "worker.revive":
            return [{"id": crew.worker, "old": old, "check_at": None} for old in (worker.STOPPED, worker.DEAD)]
        case "worker.claimed":
            return [{"id": crew.worker, "job": None}]
        case "worker.exchanged":
            return [{"succeeded": 0, "job": None, "id": crew.worker}]
        case "worker.settled":
            return [{"id": crew.worker, "succeeded": 0, "failed": 0, "error": None}]
        case "worker.stopping":
            return [{"id": crew.worker}]
        case "worker.end":
            return [{"id": crew.worker, "status": status} for status in (worker.STOPPED, worker.DEAD)]
    assert name == "orchestrator.end", f"say here how {name} is called"
    return [{"id": crew.id}]


NEEDS_NO_TIME = {"slot.stop", "worker.ready", "worker.exchanged", "worker.stopping", "worker.end", "orchestrator.end"}


@pytest.mark.parametrize("name", sorted(set(STATEMENT_MOVES) - INSERTS))
def test_a_statement_makes_the_moves_that_are_declared_for_it_and_no_others(store: Store, name: str) -> None:
    noun = "slot" if name == "orphan.empty_slot" else name.partition(".")[0]
    which = {"slot": "name = 'worker:tag:0'", "worker": "name = 'worker:tag:0'", "orchestrator": "id = 1"}[noun]
    crew = Crew(store)
    crew.come_up()
    made = set[tuple[str, str]]()
    add(store, queue="tag")
    crew.claim()
    for holds in (True, False):
        if not holds:
            rows(store, "UPDATE job SET worker = 'another'")
        if name == "worker.revive":
            rows(store, "UPDATE worker SET orchestrator = NULL")
        for old in STATES[noun]:
            if name == "orphan.empty_slot" and old not in slot.OCCUPIED:
                continue  # such a slot has no worker
            for params in calls(name, crew):
                rows(store, f"UPDATE {noun} SET status = '{old}' WHERE {which}")
                rows(store, f"UPDATE slot SET worker = '{crew.worker}'")
                with store.write() as tx:
                    clock = {} if name in NEEDS_NO_TIME - {"slot.stop"} else {"now": tx.now}
                    if name == "worker.exchanged":
                        tx.many(name, [tuple(params.values())])
                    else:
                        tx.execute(name, **params, **clock)
                ((new,),) = rows(store, f"SELECT status FROM {noun} WHERE {which}")
                made |= {(old, new)}
    declared = {
        (old, new) for _, _, before, after in STATEMENT_MOVES[name] for old in before for new in after if old != new
    }
    assert {(old, new) for old, new in made if old != new} == declared


@pytest.mark.parametrize(
    ("name", "moves", "key"),
    [
        pytest.param(name, moves, (old, verb), id=f"{name}-{verb}-{old}")
        for name, steps in STATEMENT_MOVES.items()
        for moves, verb, before, _ in steps
        for old in before
    ],
)
def test_a_statement_is_refused_when_one_of_its_moves_is_left_out_of_the_table(
    name: str, moves: dict[tuple[str | None, str], Any], key: tuple[str | None, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_statement(name)
    monkeypatch.delitem(moves, key)
    with pytest.raises(ImpossibleMove):
        check_statement(name)


def test_no_statement_that_moves_a_row_runs_unchecked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = Crew(store)
    checked: list[str] = []
    monkeypatch.setattr(transaction, "STATEMENT_MOVES", dict.fromkeys(STATEMENT_MOVES, ()))
    monkeypatch.setattr(transaction, "check_statement", checked.append)
    with store.write() as tx:
        tx.execute("slot.stop", name=NAME, now=tx.now)
        assert tx.one("worker.stopping", id=crew.worker) is None
        tx.many("worker.exchanged", [(0, None, crew.worker)])
    assert checked == ["slot.stop", "worker.stopping", "worker.exchanged"]


LOOSE = RestartPolicy(most_in_window=1000, most_in_lifetime=1000)
ACTS: dict[tuple[str, str], Callable[[Crew], object]] = {
    (slot.FILL, slot.STARTING): Crew.start,
    (slot.TAKE_OVER, slot.STARTING): Crew.start,
    (slot.REFUSE, slot.EMPTY): lambda crew: crew.die(worker_id=crew.store.new_worker_id()),
    (slot.GONE, slot.EMPTY): lambda crew: crew.die(asked=True, exit_code=0),
    (slot.DIE, slot.EMPTY): lambda crew: crew.die(asked=True),
    (slot.DIE, slot.BACKOFF): lambda crew: crew.die(LOOSE),
    (slot.DIE, slot.FAILED): lambda crew: crew.die(RestartPolicy(most_in_window=0)),
    (slot.RESET, slot.EMPTY): lambda crew: crew.store.slots.reset(NAME),
}
MOVED_BY_VALUE = [
    (old, verb, new) for verb, new in ACTS for old in slot.STATES if new in slot.MOVES.get((old, verb), frozenset())
]


@pytest.mark.parametrize(("old", "verb", "new"), MOVED_BY_VALUE)
def test_a_slot_moves_as_its_table_says_and_not_without_it(
    store: Store, old: str, verb: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew = Crew(store)
    place = f"worker = '{crew.worker}'" if old in slot.OCCUPIED else "worker = NULL"
    rows(store, f"UPDATE slot SET status = '{old}', {place}")
    with monkeypatch.context() as patch:
        patch.delitem(slot.MOVES, (old, verb))
        with pytest.raises(ImpossibleMove):
            ACTS[verb, new](crew)
    assert rows(store, "SELECT status FROM slot") == [(old,)], "the whole change is undone"
    ACTS[verb, new](crew)
    assert rows(store, "SELECT status FROM slot") == [(new,)]


def test_every_move_of_a_slot_is_made_by_the_store_or_by_the_copy_of_its_orchestrator() -> None:
    by_statement = {
        (old, verb, new)
        for steps in STATEMENT_MOVES.values()
        for moves, verb, before, after in steps
        if moves is slot.MOVES
        for old in before
        for new in after
    }
    verbs_of_a_copy = (slot.LOAD, slot.ADOPT, slot.RESTART, slot.GIVE_UP)
    in_table = {(old, verb, new) for (old, verb), after in slot.MOVES.items() for new in after}
    only_copy = {move for move in in_table if move[1] in verbs_of_a_copy or move[1:] == (slot.REFUSE, slot.BACKOFF)}
    repeated = {(slot.STOPPING, slot.STOP, slot.STOPPING)}  # a copy whose worker is asked a second time
    assert by_statement | set(MOVED_BY_VALUE) | only_copy | repeated == in_table


def test_a_slot_that_was_given_up_takes_no_worker_until_it_is_reset(store: Store) -> None:
    crew = Crew(store)
    assert crew.die(RestartPolicy(most_in_window=0)) == GiveUp("restarted 0 times within 300 s")
    with pytest.raises(Conflict, match="was given up"):
        crew.start()
    refused = store.new_worker_id()
    assert crew.die(worker_id=refused, reason="lost") == GiveUp("restarted 0 times within 300 s")
    assert rows(store, "SELECT status FROM slot") == [(slot.FAILED,)]
    store.slots.reset(NAME)
    crew.start()


def test_an_orchestrator_reports_no_state_that_it_cannot_be_in(store: Store) -> None:
    crew = Crew(store)
    for status in (STARTING, RUNNING, RUNNING, STOPPING, STOPPING):
        store.orchestrators.renew(crew.id, status=status)
    for status in (STARTING, RUNNING):
        with pytest.raises(ImpossibleMove):
            store.orchestrators.renew(crew.id, status=status)
    assert rows(store, "SELECT status FROM orchestrator") == [(STOPPING,)]


@pytest.mark.parametrize("verb", [job.CLAIM, job.FINISH])
def test_a_claim_moves_with_its_job_and_not_without_its_table(
    store: Store, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, queue="tag")
    crew = Crew(store)
    crew.come_up()
    number = store.orchestrators.number(crew.id)
    report = Report(idle=[Idle(crew.worker, "tag")])
    if verb == job.FINISH:
        (held,) = store.orchestrators.exchange(crew.id, number, report).claims
        number, report = number + 1, Report([(held.job_id, held.token, Done())])
    with monkeypatch.context() as patch:
        patch.delitem(claim.MOVES, (None if verb == job.CLAIM else claim.ACTIVE, verb))
        with pytest.raises(ImpossibleMove):
            store.orchestrators.exchange(crew.id, number, report)
    store.orchestrators.exchange(crew.id, number, report)
