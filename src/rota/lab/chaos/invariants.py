"""What must hold after any storm, by the numbers of the list of faults: the table, and the checks of crews and the log.

Each check is a function of a snapshot and a replay of its log, and yields a text for every violation. The checks of
jobs are in `job_invariants`.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core import slot as slots
from rota.core import worker as workers
from rota.core.death import OPERATOR, SETUP_FAILED, SIGNALED
from rota.core.event import JobMoved, SlotChanged, WorkerChanged
from rota.core.times import SECOND, format_duration
from rota.lab.chaos import job_invariants
from rota.lab.chaos.plan import FREEZE_CREW, HTTP, KILL_BUSY, KILL_IDLE, LOOPS, PLANNED, REMOTE
from rota.lab.chaos.replay import Replay, Served
from rota.lab.chaos.snapshot import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.core.times import Instant
    from rota.lab.chaos.ledger_reader import Injected, Life
    from rota.lab.chaos.snapshot import Snapshot
    from rota.store.workers.slots import Slot

    Check = Callable[[Snapshot, Replay], Iterator[str]]

LONGEST_WAIT = 3 * SECOND
MORE_DESCRIPTORS = 4


def _restarted(snapshot: Snapshot, slot: Slot) -> list[Instant]:
    """The deaths in a slot that certainly count as restarts: without a job, and not the one at which it gave up."""
    died = [
        certificate
        for id, certificate in snapshot.certificates.items()
        if snapshot.workers[id].slot == slot.name and snapshot.workers[id].status == workers.DEAD
    ]
    times = sorted(death.died_at for death in died if death.job is None and death.reason in (SIGNALED, SETUP_FAILED))
    return times if slot.history.failed_at is None else times[:-1]


def restarts_within_limits(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """No slot is restarted more often than its limit in any window, by its count or by its deaths, or once given up."""
    for slot in snapshot.slots:
        for times in (slot.history.restarts, _restarted(snapshot, slot)):
            recent = max((sum(at - snapshot.policy.window < other <= at for other in times) for at in times), default=0)
            if recent > snapshot.policy.most_in_window:
                yield f"{slot.name} was restarted {recent} times within {format_duration(snapshot.policy.window)}"
    given_up: set[str] = set()
    for event in snapshot.events:
        for fact in event.of(SlotChanged):
            match fact:
                case SlotChanged("move", name, {"status": slots.FAILED}):
                    given_up.add(name)
                case SlotChanged(slots.RESET | "forget", name):
                    given_up.discard(name)
                case SlotChanged("move", name, {"status": slots.STARTING}) if name in given_up:
                    yield f"{name} was started after it was given up (event {event.cursor})"


def restarts_are_counted(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """A slot counts every restart, never more than it had deaths, and never more than its lifetime limit."""
    for slot in snapshot.slots:
        deaths = sum(snapshot.workers[id].slot == slot.name for id in snapshot.certificates)
        if slot.history.lifetime > min(deaths, snapshot.policy.most_in_lifetime):
            yield f"{slot.name} counts {slot.history.lifetime} restarts for {deaths} deaths"
        # After a fault of its crew, a death may be an orphan's, which is no restart of its slot.
        surely = 0 if snapshot.ledger.faults_of_crew(slot.crew) else len(_restarted(snapshot, slot))
        if slot.history.lifetime < surely:
            yield f"{slot.name} counts {slot.history.lifetime} restarts, and was restarted {surely} times"


def one_certificate_per_death(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Every dead worker died once, has a certificate and holds nothing; no living one has a certificate."""
    died = Counter(fact.subject for event in snapshot.events for fact in event.of(WorkerChanged, workers.DIE))
    for id, worker in snapshot.workers.items():
        certified, dead = id in snapshot.certificates, worker.status == workers.DEAD
        if worker.slot is None and not dead:  # a registered worker may be declared dead and come back
            continue
        if (dead and not certified) or (certified and worker.status in workers.LIVE) or died[id] != int(dead):
            yield f"{id} is {worker.status}, died {died[id]} times, certificate: {certified}"
    for kind in (KILL_BUSY, KILL_IDLE):
        for life, _fault in snapshot.ledger.lives_hit_by(kind):
            # Whether the store may not know a worker at all is judged by I17.
            if life.worker in snapshot.workers and life.worker not in snapshot.certificates:
                yield f"{life.worker} was killed, and has no certificate"
    for job in snapshot.jobs.values():
        if job.status == jobs.ACTIVE and job.worker_id in snapshot.certificates:
            yield f"job {job.id} is held by {job.worker_id}, which is dead"


def nothing_is_left(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """After the stop: exit code 0, no claims, no living workers, no processes, sockets, pid files or held locks."""
    if snapshot.watch.stop_code != 0:
        yield f"the orchestrator's exit code was {snapshot.watch.stop_code}"
    for job in snapshot.jobs.values():
        if job.status == jobs.ACTIVE:
            yield f"job {job.id} is still claimed by {job.worker_id}"
    for worker in snapshot.workers.values():
        if worker.status in workers.LIVE:
            yield f"{worker.id} still counts as {worker.status}"
    for what, names in (
        ("process", snapshot.remains.processes),
        ("file", snapshot.remains.files),
        ("socket", snapshot.remains.sockets),
        ("held lock", snapshot.remains.locks),
    ):
        for name in names:
            yield f"left behind: {what} {name}"


def nothing_leaks(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Descriptors and threads of every orchestrator are back where they were, and there are no zombies."""
    for crew, before in snapshot.watch.before.items():
        after = snapshot.watch.after.get(crew)
        if after is None:
            yield f"crew {crew} was not whole again, so that nothing could be compared"
            continue
        if after.descriptors > before.descriptors + MORE_DESCRIPTORS:
            yield f"crew {crew}: {after.descriptors} open descriptors, {before.descriptors} before the storm"
        if after.threads > before.threads:
            yield f"crew {crew}: {after.threads} threads, {before.threads} before the storm"
        if after.zombies:
            yield f"crew {crew}: {after.zombies} zombies"


def worker_ids_are_unique(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """A worker id belongs to one process, and the store knows it."""
    pids: dict[str, int] = {}
    for life in snapshot.ledger.lives:
        if life.worker in pids:
            yield f"{life.worker} was process {pids[life.worker]} and process {life.pid}"
        pids[life.worker] = life.pid
        if life.worker not in snapshot.workers and not _began_unrecorded(snapshot, life):
            yield f"{life.worker} lived, and the store does not know it"


def _began_unrecorded(snapshot: Snapshot, life: Life) -> bool:
    """Return whether its orchestrator was killed or frozen while it started, before the store had it."""
    faults = snapshot.ledger.faults_of_crew(snapshot.crews.get(life.slot))
    return any(abs(fault.at - life.up_at) <= job_invariants.LONGEST_TRANSACTION for fault in faults)


def nothing_stumbles(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """No orchestrator ends by itself, and no offer is refused."""
    for code in snapshot.watch.unasked_exits:
        yield f"an orchestrator left by itself with exit code {code}"
    for problem in snapshot.watch.refused_offers:
        yield f"an offer was refused: {problem}"


def the_log_is_whole(snapshot: Snapshot, replay: Replay) -> Iterator[str]:
    """The cursor only advances, a follower reads every event once, and replaying gives the state of every job."""
    for one, next in pairwise(snapshot.events):
        if next.number <= one.number:
            yield f"cursor {next.cursor} came after {one.cursor}"
    followed = [event.number for event in snapshot.watch.followed]
    read = [event.number for event in snapshot.events]
    if (
        snapshot.plan.options.store == "postgres"
    ):  # a follower reads in the order of commits, a replay in that of numbers
        followed.sort()
    if followed != read[: len(followed)] or len(followed) < len(read):
        missed, twice = set(read) - set(followed), len(followed) - len(set(followed))
        yield f"a follower missed {len(missed)} events, and read {twice} twice, of {len(read)}"
    for id in {*replay.states, *snapshot.jobs}:
        stored = snapshot.jobs[id].status if id in snapshot.jobs else None
        if replay.states.get(id) != stored:
            yield f"job {id} is {stored}, and the log tells {replay.states.get(id)}"


def claimed_in_order(_: Snapshot, replay: Replay) -> Iterator[str]:
    """Jobs are claimed by priority, and by age within a priority."""
    yield from replay.out_of_order


def idle_workers_get_work(_: Snapshot, replay: Replay) -> Iterator[str]:
    """Ready work does not wait while a healthy worker is idle: one second, or three after a lost notification."""
    if replay.longest_wait > LONGEST_WAIT:
        yield f"ready work waited {format_duration(replay.longest_wait)} while a worker was idle"


CHECKS: dict[str, Check] = {
    "I1": job_invariants.one_at_a_time,
    "I2": job_invariants.tokens_grow,
    "I3": job_invariants.active_means_held,
    "I4": job_invariants.only_known_moves,
    "I5": job_invariants.every_job_is_over,
    "I6": job_invariants.one_commit,
    "I7": restarts_within_limits,
    "I8": restarts_are_counted,
    "I9": one_certificate_per_death,
    "I10": job_invariants.paused_means_paused,
    "I13": nothing_is_left,
    "I14": job_invariants.attempts_are_spent,
    "I15": job_invariants.three_deaths_quarantine,
    "I16": nothing_leaks,
    "I17": worker_ids_are_unique,
    "I21": nothing_stumbles,
    "I22": job_invariants.accepted_is_durable,
    "I23": the_log_is_whole,
    "I25": claimed_in_order,
    "I26": idle_workers_get_work,
    "I29": job_invariants.limits_hold,
    "I30": job_invariants.nothing_runs_again_without_a_reason,
}
JUDGED_ONLINE = ("I1", "I2", "I3", "I4", "I6", "I9", "I17", "I23")
# Invariants that a storm tests only if the situation that they are about occurred.
OCCURRED: dict[str, Callable[[Snapshot], bool]] = {
    "I7": lambda snapshot: any(slot.history.failed_at is not None for slot in snapshot.slots),
    "I8": lambda snapshot: any(slot.history.lifetime for slot in snapshot.slots),
    "I9": lambda snapshot: bool(snapshot.certificates),
    "I10": lambda snapshot: bool(snapshot.ledger.pauses),
    "I15": lambda snapshot: any(job.deaths >= jobs.DEATHS_TO_QUARANTINE for job in snapshot.jobs.values()),
    "I29": lambda snapshot: bool(snapshot.limits),
    "I30": lambda snapshot: any(len(runs) > 1 for runs in snapshot.ledger.executions_by_job().values()),
}


def untried(snapshot: Snapshot) -> list[str]:
    """Return the invariants that this storm says nothing about."""
    return [name for name, occurred in OCCURRED.items() if not occurred(snapshot)]


def check(snapshot: Snapshot, replay: Replay) -> list[Violation]:
    """Return all violations: those seen during the storm, with their moment, then what else is found at its end."""
    seen = {(violation.invariant, violation.text) for violation in snapshot.watch.violations}
    final = [Violation(name, text) for name, function in CHECKS.items() for text in function(snapshot, replay)]
    new = [violation for violation in final if (violation.invariant, violation.text) not in seen]
    return [*snapshot.watch.violations, *new]


def false_deaths(snapshot: Snapshot) -> list[str]:
    """Return the workers that were declared dead although nothing was done to them that ends a worker."""
    lives = {life.worker: life for life in snapshot.ledger.lives}
    kinds, texts = snapshot.kinds, []
    for id, certificate in snapshot.certificates.items():
        life, worker = lives.get(id), snapshot.workers[id]
        if certificate.reason == OPERATOR or (worker.status != workers.DEAD and worker.slot is not None):
            continue
        faults = snapshot.ledger.faults_of_crew(snapshot.crews.get(worker.slot)) if worker.slot is not None else []
        # A worker that was starting when its orchestrator was killed may be recorded only afterwards.
        orphaned = any(worker.registered_at - SECOND <= fault.store_at <= certificate.died_at for fault in faults)
        # An orphan leaves once its job is done, not before; only after a freeze past the lease is it killed with it.
        cut_short = life is not None and bool(life.ended_with) and not any(_was_frozen_by(life, f) for f in faults)
        if (orphaned and not cut_short) or (life is not None and life.was_ended_by_fault(kinds)):
            continue
        texts.append(f"{id} ({certificate.reason}: {certificate.text})")
    return texts


def _was_frozen_by(life: Life, fault: Injected) -> bool:
    """Return whether its crew was frozen by this fault during its life."""
    overlaps = life.up_at <= fault.at + fault.lasts and (life.gone_at is None or fault.at <= life.gone_at)
    return fault.kind == FREEZE_CREW and overlaps


def replay_of(snapshot: Snapshot) -> Replay:
    """Replay the log together with the faults, separately for each queue, because each has its own pool and order."""
    priorities = {id: job.priority for id, job in snapshot.jobs.items()}
    touched = _given_dependents(snapshot)
    whole, options = Replay(priorities, Served("")), snapshot.plan.options
    for queue in PLANNED:
        behind_api, visitors = options.over == HTTP or queue == REMOTE, snapshot.ledger.visitors
        served = Served(queue, behind_api, snapshot.limits.get(queue))
        replay = Replay(priorities, served, snapshot.commit_overlap, touched, visitors, snapshot.crews)
        replay.play(snapshot.events, snapshot.ledger.faults)
        if queue == LOOPS:  # how fast a bash loop turns is not the crew's doing
            replay.longest_stall = 0
        whole.add(replay)
    return whole


def _given_dependents(snapshot: Snapshot) -> dict[int, list[Instant]]:
    """Return when jobs were added that wait for it, for each job that others wait for."""
    times: dict[int, list[Instant]] = {}
    for event in snapshot.events:
        for fact in event.of(JobMoved, jobs.ADD):
            dependents = [snapshot.jobs[id] for id in fact.ids if id in snapshot.jobs]
            for needed in {needed for job in dependents for needed in job.after}:
                times.setdefault(needed, []).append(event.at)
    return times
