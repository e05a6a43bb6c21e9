"""The checker is tested: a quiet storm violates nothing, and each planted violation is found by its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rota.core.event import JobMoved, QueueChanged, SlotChanged, WorkerChanged
from rota.core.slot import History
from rota.lab.chaos import report
from rota.lab.chaos.crew_processes import Remains, Vitals
from rota.lab.chaos.invariants import CHECKS, check, false_deaths, replay_of
from rota.lab.chaos.plan import POISON
from rota.lab.chaos.scenario import OnlineChecks
from rota.lab.chaos.snapshot import Sample, Sourced
from tests.chaos import quiet as q

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.lab.chaos.snapshot import Snapshot

    Plant = Callable[[Snapshot], Snapshot]


FAULT_LINES = ("fault", "struck")


def violated(snapshot: Snapshot) -> set[str]:
    return {each.invariant for each in check(snapshot, replay_of(snapshot))}


def with_lines(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Plant:
    return lambda quiet: quiet.replace(ledger=q.ledger(change([dict(line) for line in q.LINES])))


def with_facts(change: Callable[[q.Log], q.Log]) -> Plant:
    def plant(quiet: Snapshot) -> Snapshot:
        found = tuple(q.events(change(list(q.FACTS))))
        return quiet.replace(events=found, watch=quiet.watch.replace(followed=found))

    return plant


def with_job(id: int, **changes: Any) -> Plant:
    return lambda quiet: quiet.replace(jobs={**quiet.jobs, id: quiet.jobs[id].replace(**changes)})


def with_watch(**changes: Any) -> Plant:
    return lambda quiet: quiet.replace(watch=quiet.watch.replace(**changes))


def with_more(line: dict[str, Any]) -> Plant:
    return with_lines(lambda lines: sorted([*lines, line], key=lambda line: line["at"]))


def at_once(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Job 14 begins while job 13 has not ended."""
    earlier = {"start": 50, "end": 52}
    return sorted(
        ({**line, "at": earlier[line["what"]]} if line.get("job") == q.FOUR else line for line in lines),
        key=lambda line: line["at"],
    )


def without_job(id: int) -> Plant:
    return lambda quiet: quiet.replace(jobs={other: job for other, job in quiet.jobs.items() if other != id})


def still_running(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The end of A's process is missing, and B begins A's job."""
    return [line for line in lines if not (line["what"] == "gone" and line["worker"] == q.A)]


def doubled(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines for _ in range(2 if line["what"] == "start" and line["job"] == q.ONE else 1)]


def born_twice(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*lines, {**lines[0], "pid": 102, "at": 80}]


def given_up(at: int, status: str) -> q.Log:
    return [(at, [SlotChanged("move", "worker:storm:1", {"status": status, "worker": None})])]


def late_claim(facts: q.Log) -> q.Log:
    """Nobody claims for ten seconds, though both workers are idle."""
    return [*facts[:2], *((at + 10_000, told) for at, told in facts[2:])]


def backwards(facts: q.Log) -> q.Log:
    """Job 12 is left while job 13 is claimed."""
    first = (1005, [q.moved("claim", "ready", "active", q.ONE, q.THREE, worker=q.A)])
    second = (1006, [q.moved("claim", "ready", "active", q.TWO, worker=q.B)])
    return [*facts[:2], first, second, *facts[3:]]


def outlives(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Job 12 of A is a command, which goes on after A's end until B has begun the same job."""
    over = {"what": "over", "worker": q.A, "pid": 200, "token": 2, "at": 35}
    own = [{**line, "own": True} if line.get("token") == 2 else line for line in lines]
    return sorted([*own, over], key=lambda line: line["at"])


def of_another_queue(facts: q.Log) -> q.Log:
    """Job 12 waits in another queue, which has a pool of its own."""
    return [*facts[:1], (1003, [JobMoved("add", "storm-commands", None, "ready", [9])]), *facts[1:]]


def through_and_again(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Job 11, which A had done, runs in B as well."""
    more = [
        {"what": "start", "worker": q.B, "pid": 101, "job": q.ONE, "token": 9, "at": 65},
        {"what": "end", "worker": q.B, "pid": 101, "job": q.ONE, "token": 9, "outcome": "done", "at": 66},
    ]
    hurt_later = [{**line, "kind": "freeze"} if line["what"] == "fault" else line for line in lines]
    return sorted([*hurt_later, *more], key=lambda line: line["at"])


PLANTED: dict[str, Plant] = {
    "I1 a command that outlives its worker": with_lines(outlives),
    "I1 two handlers in one job": with_lines(still_running),
    "I2 a handler that begins twice with one token": with_lines(doubled),
    "I2 a run of a token that the job never had": with_job(q.ONE, token=0),
    "I2 a later token with an earlier claim": lambda quiet: quiet.replace(
        runs=(quiet.runs[0].replace(claimed_at=5_000_000), *quiet.runs[1:])
    ),
    "I3 an active job of a worker that is gone": with_watch(samples=(Sample(q.ONE, 1, q.A, None),)),
    "I3 an active job without a token": with_watch(samples=(Sample(q.ONE, None, q.B, "busy"),)),
    "I4 a move out of a final state": with_facts(lambda facts: [*facts, facts[8]]),
    "I2 a settlement of one that had lost its claim": with_more({"what": "late", "job": q.ONE, "token": 1, "at": 90}),
    "I4 a job that begins after it was called off": with_more({"what": "cancelled", "job": q.THREE, "at": 45}),
    "I4 a job that begins before the one it waits for": with_job(q.ONE, after=(q.TWO,)),
    "I5 two jobs with one key": with_job(q.TWO, key="0"),
    "I8 restarts that are not counted": lambda quiet: quiet.replace(
        certificates={q.A: q.a_certificate(1_023_000, "signaled", None)},
        slots=(q.a_slot(0, History()), quiet.slots[1]),
    ),
    "I10 a job that begins while its queue is paused": with_more({"what": "paused", "queue": "storm", "at": 45}),
    "I14 a death that spent nothing": with_job(q.TWO, attempts=1),
    "I14 an attempt that nothing spent": with_job(q.ONE, attempts=2),
    "I29 more at once than the queue allows": lambda quiet: with_lines(at_once)(quiet).replace(limits={"storm": 1}),
    "I5 a job that is not over": with_job(q.TWO, status="ready"),
    "I5 a job that waits for one that is done": with_job(q.FOUR, status="blocked"),
    "I5 a job that failed for no reason of ours": with_job(q.TWO, status="failed", error="no idea"),
    "I5 a job that nobody offered": with_job(q.TWO, key="99"),
    "I5 wrong counters": lambda quiet: quiet.replace(counts={"done": 3, "ready": 1}),
    "I5 a key that was never done": lambda quiet: quiet.replace(sourced=Sourced(2, 2, unmarked=frozenset("1"))),
    "I5 a key that succeeded twice": lambda quiet: quiet.replace(sourced=Sourced(2, 3)),
    "I5 a key whose job failed for no reason of ours": lambda quiet: quiet.replace(
        sourced=Sourced(1, 0, (q.a_job(20, 0, 9, status="failed"),))
    ),
    "I6 a second commit": lambda quiet: quiet.replace(runs=(*quiet.runs, q.a_run(6, q.FOUR, q.B, "finish"))),
    "I6 a commit by a worker that did not run it": lambda quiet: quiet.replace(
        runs=(quiet.runs[0].replace(worker_id=q.B), *quiet.runs[1:])
    ),
    "I6 a job done without a run": lambda quiet: quiet.replace(runs=quiet.runs[1:]),
    "I6 a failure that no handler had": lambda quiet: quiet.replace(
        runs=(q.a_run(1, q.ONE, q.A, "fail"), *quiet.runs[1:])
    ),
    "I7 six restarts within five minutes": lambda quiet: quiet.replace(
        slots=(q.a_slot(0, History(tuple(range(6)), 1)), quiet.slots[1])
    ),
    "I7 a start after the slot was given up": with_facts(
        lambda facts: [*facts, *given_up(1080, "failed"), *given_up(1090, "starting")]
    ),
    "I8 more restarts than deaths": lambda quiet: quiet.replace(slots=(q.a_slot(0, History((), 2)), quiet.slots[1])),
    "I9 a death without a certificate": lambda quiet: quiet.replace(certificates={}),
    "I9 a certificate for one who lives": lambda quiet: quiet.replace(
        workers={**quiet.workers, q.A: q.a_worker(q.A, 0, "idle")}
    ),
    "I9 a death that is told twice": with_facts(lambda facts: [*facts, (1080, [WorkerChanged("die", q.A, {})])]),
    "I9 a job that a dead worker holds": with_job(q.TWO, status="active", worker_id=q.A),
    "I13 a claim after the stop": with_job(q.TWO, status="active", worker_id=q.B),
    "I13 a worker that still counts as living": lambda quiet: quiet.replace(
        workers={**quiet.workers, q.B: q.a_worker(q.B, 1, "idle")}
    ),
    "I13 a process left behind": lambda quiet: quiet.replace(remains=Remains(processes=("99 (sleep)",))),
    "I13 a pid file left behind": lambda quiet: quiet.replace(remains=Remains(files=("rota.db.orchestrator",))),
    "I13 a socket left behind": lambda quiet: quiet.replace(remains=Remains(sockets=("bell",))),
    "I13 a lock that is held": lambda quiet: quiet.replace(remains=Remains(locks=("rota.db.lock",))),
    "I13 a stop that failed": with_watch(stop_code=1),
    "I15 three deaths and no quarantine": with_job(q.TWO, deaths=3),
    "I15 a quarantine without deaths": with_job(q.TWO, status="failed", error="quarantined: cost 3 workers"),
    "I15 a death that no certificate tells of": with_job(q.TWO, deaths=2),
    "I15 poison that was done": lambda quiet: quiet.replace(plan=q.poisoned()),
    "I16 descriptors that leak": with_watch(after={"main": Vitals(30, 2, 0)}),
    "I16 a thread that leaks": with_watch(after={"main": Vitals(20, 3, 0)}),
    "I16 a zombie": with_watch(after={"main": Vitals(20, 2, 1)}),
    "I16 a crew that did not become whole again": with_watch(after={}),
    "I17 one worker id for two processes": with_lines(born_twice),
    "I17 a worker that the store does not know": lambda quiet: quiet.replace(workers={q.A: quiet.workers[q.A]}),
    "I21 an orchestrator that left by itself": with_watch(unasked_exits=(1,)),
    "I21 an offer that was refused": with_watch(refused_offers=("database is locked",)),
    "I22 an accepted job that is not there": without_job(q.TWO),
    "I23 an event that a follower missed": lambda quiet: quiet.replace(
        watch=quiet.watch.replace(followed=quiet.events[1:])
    ),
    "I23 an event that a follower read twice": lambda quiet: quiet.replace(
        watch=quiet.watch.replace(followed=quiet.events[:1] + quiet.events)
    ),
    "I23 a cursor that goes back": lambda quiet: quiet.replace(events=(*quiet.events, quiet.events[0])),
    "I23 a log without the last commits": with_facts(lambda facts: facts[:8]),
    "I25 an older job that is left": with_facts(backwards),
    "I26 ready work beside idle workers": with_facts(late_claim),
    "I30 a handler that runs again for no reason": with_lines(
        lambda lines: [line for line in lines if line["what"] not in FAULT_LINES]
    ),
    "I30 a handler that was through and runs again": with_lines(through_and_again),
}


def test_a_quiet_storm_violates_nothing() -> None:
    told = report.document(q.quiet())
    assert told["violations"] == [] and report.is_good(told)
    assert told["lost"] == told["committed_more_than_once"] == told["claims_left"] == 0


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str) -> None:
    planted = PLANTED[name](q.quiet())
    assert name.split()[0] in violated(planted)
    assert not report.is_good(report.document(planted))


def test_every_invariant_has_a_planted_violation() -> None:
    assert {name.split()[0] for name in PLANTED} == set(CHECKS)


def test_a_job_that_is_missing_or_not_over_is_lost() -> None:
    assert report.document(without_job(q.TWO)(q.quiet()))["lost"] == 1
    assert report.document(with_job(q.TWO, status="scheduled")(q.quiet()))["lost"] == 1


def test_a_command_may_outlive_its_worker_until_its_job_begins_again() -> None:
    lines = outlives([dict(line) for line in q.LINES])
    ended = [{**line, "at": 29} if line["what"] == "over" else line for line in lines]
    ledger = q.ledger(sorted(ended, key=lambda line: line["at"]))
    assert "I1" not in violated(q.quiet().replace(ledger=ledger))


def test_a_claim_in_one_queue_passes_over_no_job_of_another() -> None:
    waiting = with_facts(of_another_queue)(q.quiet())
    assert not {"I25", "I26"} & violated(waiting)


def passing_over(dependent_at: int) -> q.Log:
    """Job 12 has been ready for long and is left while job 13 is claimed; job 14 is added to wait for it."""
    added = (1004, [q.moved("add", None, "ready", q.ONE, q.TWO, q.THREE)])
    first = (9000, [q.moved("claim", "ready", "active", q.ONE, q.THREE, worker=q.A)])
    dependent = (dependent_at, [q.moved("add", None, "blocked", q.FOUR)])
    return [added, *sorted([first, dependent], key=lambda told: told[0])]


@pytest.mark.parametrize(
    ("store", "dependent_at", "is_excused"),
    [("postgres", 9100, True), ("postgres", 8900, True), ("postgres", 3000, False), ("sqlite", 9000, False)],
)
def test_a_job_may_be_passed_over_only_while_a_transaction_adds_a_job_that_waits_for_it(
    store: str, dependent_at: int, is_excused: bool
) -> None:
    plan = q.plan().replace(options=q.plan().options.replace(store=store))
    waits = with_job(q.FOUR, after=(q.TWO,))(q.quiet().replace(plan=plan))
    passed = with_facts(lambda _: passing_over(dependent_at))(waits)
    assert ("I25" not in violated(passed)) == is_excused


def test_a_poison_job_behind_a_failed_job_never_runs() -> None:
    (offer,) = q.plan().offers
    last = q.plan().replace(offers=(offer.replace(jobs=(*offer.jobs[:3], offer.jobs[3].replace(kind=POISON))),))
    failed = with_job(q.ONE, status="failed", deaths=3, error="quarantined: cost 3 workers")(
        q.quiet().replace(plan=last)
    )
    waiting = with_job(q.FOUR, status="blocked")(failed)
    assert not [each for each in check(waiting, replay_of(waiting)) if f"job {q.FOUR} kills" in each.text]


def test_a_job_behind_a_failed_job_is_not_lost() -> None:
    failed = with_job(q.ONE, status="failed", deaths=3, error="quarantined: cost 3 workers")(q.quiet())
    assert report.document(with_job(q.FOUR, status="blocked")(failed))["lost"] == 0


def test_a_death_without_a_fault_is_a_false_death() -> None:
    unhurt = with_lines(lambda lines: [line for line in lines if line["what"] not in FAULT_LINES])(q.quiet())
    told = report.document(unhurt)
    assert len(told["false_deaths"]) == 1 and q.A in told["false_deaths"][0]
    assert not report.is_good(told)


def test_the_death_of_a_worker_that_was_only_frozen_is_false() -> None:
    frozen = with_lines(
        lambda lines: [{**line, "kind": "freeze"} if line["what"] == "fault" else line for line in lines]
    )
    assert len(false_deaths(frozen(q.quiet()))) == 1


@pytest.mark.parametrize("with_a_job", [True, False])
def test_an_orphan_may_be_lost_when_idle_but_not_while_it_runs_a_job(with_a_job: bool) -> None:
    killed = {"what": "fault", "kind": "kill orchestrator", "store_at": 1022 * q.MS, "at": 22}
    idle = {"what": "end", "worker": q.A, "pid": 100, "job": q.TWO, "token": 2, "outcome": "done", "at": 21}
    lines = [line for line in q.LINES if line["what"] not in FAULT_LINES]
    ledger = q.ledger(sorted([*lines, killed, *([] if with_a_job else [idle])], key=lambda line: line["at"]))
    lost = q.a_certificate(1023 * q.MS, "lost", q.TWO)
    assert bool(false_deaths(q.quiet().replace(ledger=ledger, certificates={q.A: lost}))) == with_a_job


@pytest.mark.parametrize(("frozen_at", "is_excused"), [(29, True), (31, False)])
def test_two_workers_may_run_a_job_at_once_only_if_the_first_ones_crew_was_frozen(
    frozen_at: int, is_excused: bool
) -> None:
    fault = {"what": "fault", "kind": "freeze crew", "workers": [q.A], "store_at": 0, "at": frozen_at, "crew": "main"}
    lines = [line for line in still_running(q.LINES) if line["what"] not in FAULT_LINES]
    frozen = q.quiet().replace(ledger=q.ledger(sorted([*lines, fault], key=lambda line: line["at"])))
    assert not {"I1", "I30"} & violated(frozen) if is_excused else {"I1"} <= violated(frozen)


@pytest.mark.parametrize(("stopped_at", "is_false"), [(21, False), (23, True)])
def test_a_busy_worker_may_be_lost_only_if_its_crew_was_frozen_during_its_life(stopped_at: int, is_false: bool) -> None:
    killed = {"what": "fault", "kind": "kill orchestrator", "store_at": 1022 * q.MS, "at": 20}
    stopped = {"what": "fault", "kind": "freeze crew", "store_at": 1022 * q.MS, "at": stopped_at}
    lines = [line for line in q.LINES if line["what"] not in FAULT_LINES]
    ledger = q.ledger(sorted([*lines, killed, stopped], key=lambda line: line["at"]))
    lost = q.a_certificate(1023 * q.MS, "lost", q.TWO)
    assert bool(false_deaths(q.quiet().replace(ledger=ledger, certificates={q.A: lost}))) == is_false


@pytest.mark.parametrize(("who", "token", "is_excused"), [(q.B, 0, True), (q.A, 0, False), (q.B, 4, False)])
def test_only_a_worker_that_was_frozen_past_its_lease_may_begin_with_a_lost_token(
    who: str, token: int, is_excused: bool
) -> None:
    stopped = {"what": "fault", "kind": "freeze crew", "workers": [who], "store_at": 1022 * q.MS, "at": 35, "lasts": 0}
    lines = [{**line, "token": token} if line.get("token") == 5 else line for line in q.LINES]
    ledger = q.ledger(sorted([*lines, stopped], key=lambda line: line["at"]))
    assert ("I2" not in violated(q.quiet().replace(ledger=ledger))) == is_excused
    told = OnlineChecks(in_order=True).check(ledger, [], [])
    assert ("I2" not in {each.invariant for each in told}) == is_excused


@pytest.mark.parametrize(("seconds", "is_excused"), [(4, True), (6, False)])
def test_a_worker_may_be_unknown_only_if_its_orchestrator_was_hit_while_it_started(
    seconds: int, is_excused: bool
) -> None:
    killed = {"what": "fault", "kind": "kill orchestrator", "store_at": 0, "at": seconds * 1_000_000, "crew": "main"}
    slots = tuple(slot.replace(crew="main") for slot in q.quiet().slots)
    unknown = with_more(killed)(q.quiet()).replace(slots=slots, workers={q.A: q.quiet().workers[q.A]})
    assert ("I17" not in violated(unknown)) == is_excused


@pytest.mark.parametrize(("is_known", "is_violated"), [(False, False), (True, True)])
def test_a_killed_worker_needs_a_certificate_unless_its_orchestrator_was_killed_before_it_was_registered(
    is_known: bool, is_violated: bool
) -> None:
    lines = [
        {"what": "fault", "kind": "kill idle", "workers": [q.B], "store_at": 0, "at": 63},
        {"what": "fault", "kind": "kill orchestrator", "store_at": 0, "at": 64, "crew": "main"},
    ]
    slots = tuple(slot.replace(crew="main") for slot in q.quiet().slots)
    workers = q.quiet().workers if is_known else {q.A: q.quiet().workers[q.A]}
    with_faults = with_lines(lambda before: [*before[:-1], *lines, before[-1]])
    killed = with_faults(q.quiet()).replace(slots=slots, workers=workers)
    problems = [violation.text for violation in check(killed, replay_of(killed)) if violation.invariant == "I9"]
    assert any("has no certificate" in text for text in problems) == is_violated


@pytest.mark.parametrize(
    ("late", "is_violated"), [(0, False), (1, True)], ids=["one that was lost", "that of the commit"]
)
def test_a_dependency_is_done_at_the_end_of_the_run_that_was_committed(late: int, is_violated: bool) -> None:
    """Of two runs of job 11 the one with token 1 is committed; job 14, which waits for it, begins at 60."""
    lines = [line for line in q.LINES if line.get("job") != q.ONE]
    for token in (0, 1):
        told = {"worker": q.B, "pid": 101, "job": q.ONE, "token": token}
        ended_at = 65 if token == late else 11
        lines += [
            {**told, "what": "start", "at": 9 + token},
            {**told, "what": "end", "outcome": "done", "at": ended_at},
        ]
    ledger = q.ledger(sorted(lines, key=lambda line: line["at"]))
    assert ("I4" in violated(q.quiet().replace(ledger=ledger))) == is_violated


def test_an_invariant_that_a_storm_could_not_test_is_not_reported_as_checked() -> None:
    told = report.document(q.quiet())
    assert "I10" in told["invariants_not_tried"] and "I10" not in told["invariants_checked"]
    paused = with_more({"what": "paused", "queue": "storm-commands", "at": 45})(q.quiet())
    assert "I10" in report.document(paused)["invariants_checked"]


def test_recovery_is_measured_from_the_fault_to_the_certificate_and_to_the_next_start() -> None:
    mending = report.recoveries(q.quiet())["kill busy, another idle"]
    assert mending.seen is not None and mending.seen.most == 2.0
    assert mending.rerun is not None and mending.rerun.most == 0.0  # 9 µs
    assert mending.refilled is None


@pytest.mark.parametrize(
    ("pauses", "is_told_apart"),
    [
        ([(1010, "pause", "storm"), (1030, "resume", "storm")], False),
        ([(1010, "pause", "*"), (1030, "resume", "*")], False),
        ([(1021, "pause", "storm"), (1022, "resume", "storm")], False),
        ([(1010, "pause", "storm"), (1015, "resume", "storm")], True),
        ([(1010, "pause", "other")], True),
        ([(1030, "pause", "storm")], True),
    ],
    ids=str,
)
def test_a_fault_in_a_paused_queue_does_not_count_as_one_beside_an_idle_worker(
    pauses: list[tuple[int, str, str]], is_told_apart: bool
) -> None:
    pausing: q.Log = [(at, [QueueChanged(verb, queue, {})]) for at, verb, queue in pauses]
    facts = [*q.FACTS, *pausing]
    events = tuple(q.events(sorted(facts, key=lambda fact: fact[0])))
    assert ("kill busy, another idle" in report.recoveries(q.quiet().replace(events=events))) == is_told_apart


def test_a_fault_whose_victim_had_ended_is_taken_back() -> None:
    ledger = q.ledger([{**line, "what": "spared"} if line["what"] == "struck" else line for line in q.LINES])
    assert ledger.faults == [] and all(life.faults == [] for life in ledger.lives)


@pytest.mark.parametrize(
    ("store", "claimed_at", "is_excused"),
    [("postgres", 9500, True), ("postgres", 11000, False), ("sqlite", 9001, False)],
)
def test_a_job_may_be_passed_over_while_a_concurrent_transaction_claims_it(
    store: str, claimed_at: int, is_excused: bool
) -> None:
    """The other's change was under way: it had the job, and ended a moment later."""
    other = (claimed_at, [q.moved("claim", "ready", "active", q.TWO, worker=q.B)])
    plan = q.plan().replace(options=q.plan().options.replace(store=store))
    passed = with_facts(lambda _: [*passing_over(3000), other])(q.quiet().replace(plan=plan))
    assert ("I25" not in violated(passed)) == is_excused


@pytest.mark.parametrize(
    ("crew", "killed_at", "is_false"), [("main", 400, False), ("main", 0, True), ("far", 1010, True)]
)
def test_a_worker_whose_orchestrator_was_killed_while_starting_it_is_no_false_death(
    crew: str, killed_at: int, is_false: bool
) -> None:
    """It counts as registered at 1000 ms: its orchestrator's last change may have been under way for a while."""
    killed = {"what": "fault", "kind": "kill orchestrator", "store_at": killed_at * q.MS - 1, "at": 21, "crew": crew}
    lines = [line for line in q.LINES if line["what"] not in FAULT_LINES and line.get("token") != 2]
    slots = tuple(slot.replace(crew="main") for slot in q.quiet().slots)
    snapshot = q.quiet().replace(ledger=q.ledger([*lines, killed]), slots=slots)
    assert bool(false_deaths(snapshot)) == is_false
