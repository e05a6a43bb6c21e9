"""What must hold after any storm, by the numbers of the list of faults. Each check is a function of a snapshot."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core import slot as slots
from rota.core import worker as workers
from rota.core.death import SETUP_FAILED, SIGNALED
from rota.core.times import SECOND, format_duration
from rota.lab.chaos.directive_checks import attempts_are_spent, limits_hold, paused_means_paused
from rota.lab.chaos.expected import blocked_for_good, is_expected_to_fail, lost, out_of_order, overlap
from rota.lab.chaos.latencies import was_ended
from rota.lab.chaos.plan import CRASH, CUT, HTTP, KILL_API, KILL_BUSY, KILL_IDLE, LOOPS, PLANNED, POISON, REMOTE
from rota.lab.chaos.replay import Replay, Served
from rota.lab.chaos.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.core.times import Duration, Instant
    from rota.lab.chaos.ledger_reader import Execution, Life
    from rota.lab.chaos.snapshot import Snapshot
    from rota.store.workers.slots import Slot

    Check = Callable[[Snapshot, Replay], Iterator[str]]

LONGEST_WAIT = 3 * SECOND
SLACK = 4
PATIENCE = 5 * SECOND  # no change is under way for longer: a claim's time is that of its change's beginning


def one_at_a_time(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """At most one live claim per job: no handler begins while another has the job."""
    lives = {life.worker: life for life in snapshot.ledger.lives}
    for job, executions in snapshot.ledger.of_job().items():
        for first, second in pairwise(executions):
            if overlap(first, second, lives.get(first.worker)):
                yield f"job {job} began with token {second.token} while token {first.token} was still running"


def tokens_grow(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Tokens only grow, for each job and in all; who was stopped past its lease may begin with one that it has lost."""
    lives = {life.worker: life for life in snapshot.ledger.lives}
    for id, executions in snapshot.ledger.of_job().items():
        for first, second in pairwise(executions):
            if out_of_order(first, second, lives.get(second.worker)):
                yield f"job {id} began with token {second.token} after token {first.token}"
    for id, token in snapshot.ledger.settled_late:
        yield f"job {id} was settled with token {token}, which somebody else's had taken the place of"
    for earlier, later in pairwise(snapshot.runs):
        if later.claimed_at < earlier.claimed_at - (PATIENCE if _at_once(snapshot) else 0):
            yield f"token {later.token} was drawn before token {earlier.token}"
    for run in snapshot.runs:
        job = snapshot.jobs.get(run.job_id)
        if job is not None and (job.token is None or run.token > job.token):
            yield f"job {job.id} has a run with token {run.token}, and its last claim had {job.token}"


def active_means_held(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Active if and only if there is a live claim of a living worker."""
    for sample in set(snapshot.watch.samples):
        if sample.token is None or sample.worker_status not in workers.LIVE:
            yield f"job {sample.job} was active with {sample.worker} and token {sample.token}, which nobody living has"


def only_known_moves(snapshot: Snapshot, replay: Replay) -> Iterator[str]:
    """Only moves of the table, final states absorb, and nothing begins before what it waits for is done."""
    yield from replay.wrong_moves
    committed = {run.token for run in snapshot.runs if run.verb == jobs.FINISH}
    done = {each.job: each.over_at for each in snapshot.ledger.executions if each.token in committed and each.over_at}
    for each in snapshot.ledger.executions:
        called_off = snapshot.ledger.cancelled.get(each.job)
        if called_off is not None and each.started_at > called_off:
            yield f"job {each.job} began with token {each.token} after it was called off"
        for needed in snapshot.jobs[each.job].after if each.job in snapshot.jobs else ():
            if done.get(needed, each.started_at) >= each.started_at:
                yield f"job {each.job} began with token {each.token} before job {needed}, which it waits for, was done"


def every_job_is_over(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Accepted jobs are all there, each in one final state that the plan explains, and counted right."""
    yield from lost(snapshot)
    offered = {str(number) for number in snapshot.ledger.offered}
    for key, times in Counter(job.key for job in snapshot.jobs.values()).items():
        if times > 1:
            yield f"{times} jobs have the key {key}"
    for job in snapshot.jobs.values():
        if job.key not in offered:
            yield f"job {job.id} was never offered"
        if job.status in (jobs.FAILED, jobs.CANCELLED) and not is_expected_to_fail(snapshot, job.id):
            yield f"job {job.id} is {job.status}, and nothing explains it: {job.error}"
    yield from _every_key_is_over(snapshot)
    true: dict[str, int] = {}
    for job in snapshot.jobs.values():
        true[job.status] = true.get(job.status, 0) + 1
    if {status: n for status, n in snapshot.counts.items() if n} != true:
        yield f"counted {dict(snapshot.counts)}, and there are {true}"


def _every_key_is_over(snapshot: Snapshot) -> Iterator[str]:
    """Each key of the source succeeded once, or its job is still there and failed for a reason."""
    found, failed = snapshot.sourced, {job.key: job for job in snapshot.sourced.failed}
    for key in sorted(found.unmarked - failed.keys()):
        yield f"key {key} of the source was never done"
    if found.successes + len(failed) != found.keys:
        yield f"{found.successes} of {found.keys} keys succeeded, and {len(failed)} failed"
    for job in failed.values():
        if job.deaths < jobs.DEATHS_TO_QUARANTINE:
            yield f"job {job.id} of the source failed, and nothing explains it: {job.error}"


def one_commit(snapshot: Snapshot, replay: Replay) -> Iterator[str]:
    """At most one commit per job, by the holder: by runs, by the log and by the ledger."""
    ended = {(each.job, each.token): each for each in snapshot.ledger.executions}
    finished: dict[int, int] = {}
    for run in snapshot.runs:
        if run.verb not in (jobs.FINISH, jobs.FAIL):
            continue
        execution = ended.get((run.job_id, run.token))
        outcome = "done" if run.verb == jobs.FINISH else "failed"
        if execution is None or execution.outcome != outcome or execution.worker != run.worker_id:
            yield f"job {run.job_id} is told {outcome} by token {run.token}, and no handler ended so with it"
        if run.verb == jobs.FINISH:
            finished[run.job_id] = finished.get(run.job_id, 0) + 1
    for id, times in finished.items():
        if times > 1:
            yield f"job {id} was committed {times} times"
    for job in snapshot.jobs.values():
        told = (finished.get(job.id, 0), replay.finishes.get(job.id, 0))
        if told[0] != told[1] or (job.status == jobs.DONE) != (told[0] > 0):
            yield f"job {job.id} is {job.status}, with {told[0]} commits by its runs and {told[1]} by the log"


def _restarted(snapshot: Snapshot, slot: Slot) -> list[Instant]:
    """The deaths in a slot that surely count as restarts: with no job in hand; the last one was not, if it gave up."""
    dead = [id for id, worker in snapshot.workers.items() if worker.slot == slot.name and worker.status == workers.DEAD]
    found = [snapshot.certificates[id] for id in dead if id in snapshot.certificates]
    times = sorted(each.died_at for each in found if each.job is None and each.reason in (SIGNALED, SETUP_FAILED))
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
        for fact in event.facts:
            match fact:
                case ["slot", "move", name, {"status": slots.FAILED}]:
                    given_up.add(name)
                case ["slot", slots.RESET | "forget", name, *_]:
                    given_up.discard(name)
                case ["slot", "move", name, {"status": slots.STARTING}] if name in given_up:
                    yield f"{name} was started after it was given up (event {event.cursor})"


def restarts_are_counted(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """A slot's lifetime counts deaths, no more than there were and no more than allowed."""
    for slot in snapshot.slots:
        deaths = sum(snapshot.workers[id].slot == slot.name for id in snapshot.certificates)
        if slot.history.lifetime > min(deaths, snapshot.policy.most_in_lifetime):
            yield f"{slot.name} counts {slot.history.lifetime} restarts for {deaths} deaths"
        surely = (
            0 if snapshot.ledger.of_crew(slot.crew) else len(_restarted(snapshot, slot))
        )  # an orphan's death costs no slot
        if slot.history.lifetime < surely:
            yield f"{slot.name} counts {slot.history.lifetime} restarts, and was restarted {surely} times"


def one_certificate_per_death(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Every dead worker died once, has a certificate and holds nothing; no living one has a certificate."""
    died: dict[str, int] = {}
    for event in snapshot.events:
        for fact in event.facts:
            if fact[:2] == ["worker", workers.DIE]:
                died[fact[2]] = died.get(fact[2], 0) + 1
    for id, worker in snapshot.workers.items():
        certified, dead = id in snapshot.certificates, worker.status == workers.DEAD
        if worker.slot is None and not dead:  # one that registered may be thought dead, and come back
            continue
        if (dead and not certified) or (certified and worker.status in workers.LIVE) or died.get(id, 0) != int(dead):
            yield f"{id} is {worker.status}, died {died.get(id, 0)} times, certificate: {certified}"
    for kind in (KILL_BUSY, KILL_IDLE):
        for life, _fault in snapshot.ledger.lives_of(kind):
            if life.worker not in snapshot.certificates:
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
    for what, found in (
        ("process", snapshot.remains.processes),
        ("file", snapshot.remains.files),
        ("socket", snapshot.remains.sockets),
        ("held lock", snapshot.remains.locks),
    ):
        for each in found:
            yield f"left behind: {what} {each}"


def three_deaths_quarantine(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """A job that cost three workers is quarantined, no other is, and no job is charged for more deaths than it saw."""
    kinds, named = snapshot.kinds, [certificate.job for certificate in snapshot.certificates.values()]
    for job in snapshot.jobs.values():
        quarantined = job.status == jobs.FAILED and (job.error or "").startswith(jobs.QUARANTINED)
        if quarantined != (job.deaths >= jobs.DEATHS_TO_QUARANTINE):
            yield f"job {job.id} cost {job.deaths} workers and is {job.status}"
        if job.deaths > named.count(job.id):
            yield f"job {job.id} counts {job.deaths} deaths, and {named.count(job.id)} certificates name it"
        never_ran = job.status == jobs.BLOCKED and blocked_for_good(job, snapshot.jobs)
        if kinds.get(job.id) == POISON and not quarantined and not never_ran:
            yield f"job {job.id} kills its workers, and is {job.status}"


def nothing_leaks(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Descriptors and threads of every orchestrator are back where they were, and there are no zombies."""
    for crew, before in snapshot.watch.before.items():
        after = snapshot.watch.after.get(crew)
        if after is None:
            yield f"crew {crew} was not whole again, so that nothing could be compared"
            continue
        if after.descriptors > before.descriptors + SLACK:
            yield f"crew {crew}: {after.descriptors} open descriptors, {before.descriptors} before the storm"
        if after.threads > before.threads:
            yield f"crew {crew}: {after.threads} threads, {before.threads} before the storm"
        if after.zombies:
            yield f"crew {crew}: {after.zombies} zombies"


def worker_ids_are_unique(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """A worker id means one process life."""
    seen: dict[str, int] = {}
    for life in snapshot.ledger.lives:
        if life.worker in seen:
            yield f"{life.worker} was process {seen[life.worker]} and process {life.pid}"
        seen[life.worker] = life.pid
        if life.worker not in snapshot.workers and not _is_unwritten(snapshot, life):
            yield f"{life.worker} lived, and the store does not know it"


def _is_unwritten(snapshot: Snapshot, life: Life) -> bool:
    """Whether its orchestrator was ended or stopped in the moment in which it began, before that was written down."""
    crew = snapshot.ledger.of_crew(snapshot.crews.get(life.slot))
    return any(abs(fault.at - life.up_at) <= PATIENCE for fault in crew)


def nothing_stumbles(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """No orchestrator leaves by itself, and no offer is refused."""
    for code in snapshot.watch.unasked_exits:
        yield f"an orchestrator left by itself with exit code {code}"
    for problem in snapshot.watch.refused_offers:
        yield f"an offer was refused: {problem}"


def accepted_is_durable(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """What was acknowledged is there."""
    for number, id in snapshot.ledger.accepted.items():
        if id not in snapshot.jobs or snapshot.jobs[id].key != str(number):
            yield f"job {id} was accepted as number {number}, and is not there"


def the_log_is_whole(snapshot: Snapshot, replay: Replay) -> Iterator[str]:
    """The cursor only advances, a follower reads the same as a replay, and the replay is the state of all jobs."""
    for one, next in pairwise(snapshot.events):
        if next.number <= one.number:
            yield f"cursor {next.cursor} came after {one.cursor}"
    followed, read = [event.number for event in snapshot.watch.followed], [event.number for event in snapshot.events]
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
    """Higher priorities first, and within one the older job."""
    yield from replay.out_of_order


def idle_workers_get_work(_: Snapshot, replay: Replay) -> Iterator[str]:
    """Ready work does not wait while a healthy worker is idle: a second, or three after a lost hint."""
    if replay.longest_wait > LONGEST_WAIT:
        yield f"ready work waited {format_duration(replay.longest_wait)} while a worker was idle"


def nothing_runs_again_without_a_reason(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """A handler runs again only after a failure, or when what it did may have been lost with somebody."""
    lives = {life.worker: life for life in snapshot.ledger.lives}
    for job, executions in snapshot.ledger.of_job().items():
        for first, second in pairwise(executions):
            if first.outcome != "failed" and not _is_excused(snapshot, first, second, lives.get(first.worker)):
                came_to = f"nothing befell token {first.token} ({first.outcome or 'cut short'})"
                yield f"job {job} ran again with token {second.token}, and {came_to}"


def _is_excused(snapshot: Snapshot, first: Execution, second: Execution, life: Life | None) -> bool:
    """Whether something was broken that the first one's end depended on, before the second began."""
    if life is None or was_ended(life, snapshot.kinds):
        return True
    crew = snapshot.crews.get(life.slot)
    behind = crew in snapshot.plan.options.behind_api or (not life.is_supervised and snapshot.plan.options.over == HTTP)
    kinds = (CUT, CRASH, *((KILL_API,) if behind else ()))
    others = [fault for kind in kinds for fault in snapshot.ledger.faults_of(kind)]
    return any(
        first.started_at - SECOND <= fault.at <= second.started_at
        for fault in (*snapshot.ledger.of_crew(crew), *others)
    )


CHECKS: dict[str, Check] = {
    "I1": one_at_a_time,
    "I2": tokens_grow,
    "I3": active_means_held,
    "I4": only_known_moves,
    "I5": every_job_is_over,
    "I6": one_commit,
    "I7": restarts_within_limits,
    "I8": restarts_are_counted,
    "I9": one_certificate_per_death,
    "I10": paused_means_paused,
    "I13": nothing_is_left,
    "I14": attempts_are_spent,
    "I15": three_deaths_quarantine,
    "I16": nothing_leaks,
    "I17": worker_ids_are_unique,
    "I21": nothing_stumbles,
    "I22": accepted_is_durable,
    "I23": the_log_is_whole,
    "I25": claimed_in_order,
    "I26": idle_workers_get_work,
    "I29": limits_hold,
    "I30": nothing_runs_again_without_a_reason,
}
# What a storm can only show where something of the kind happened.
HAPPENED: dict[str, Callable[[Snapshot], bool]] = {
    "I7": lambda snapshot: any(slot.history.failed_at is not None for slot in snapshot.slots),
    "I8": lambda snapshot: any(slot.history.lifetime for slot in snapshot.slots),
    "I9": lambda snapshot: bool(snapshot.certificates),
    "I10": lambda snapshot: bool(snapshot.ledger.pauses),
    "I15": lambda snapshot: any(job.deaths >= jobs.DEATHS_TO_QUARANTINE for job in snapshot.jobs.values()),
    "I29": lambda snapshot: bool(snapshot.limits),
    "I30": lambda snapshot: any(len(executions) > 1 for executions in snapshot.ledger.of_job().values()),
}


def untried(snapshot: Snapshot) -> list[str]:
    """The invariants that this storm says nothing about."""
    return [name for name, happened in HAPPENED.items() if not happened(snapshot)]


def check(snapshot: Snapshot, replay: Replay) -> list[Violation]:
    """Every violation of every invariant: those seen on the way, with their moment, then what else is found."""
    seen = {(each.invariant, each.text) for each in snapshot.watch.violations}
    now = [Violation(name, text) for name, function in CHECKS.items() for text in function(snapshot, replay)]
    return [*snapshot.watch.violations, *(each for each in now if (each.invariant, each.text) not in seen)]


def _at_once(snapshot: Snapshot) -> Duration:
    """For how long changes may be under way beside one another; in a file there is always one at a time."""
    return SECOND if snapshot.plan.options.store == "postgres" else 0


def replay_of(snapshot: Snapshot) -> Replay:
    """The log, played against what was broken, for each queue by itself: each has its own pool and its own order."""
    priorities = {id: job.priority for id, job in snapshot.jobs.items()}
    at_once = _at_once(snapshot)
    touched = _given_dependents(snapshot)
    whole, options = Replay(priorities, Served("")), snapshot.plan.options
    for queue in PLANNED:
        behind, visitors = options.over == HTTP or queue == REMOTE, snapshot.ledger.visitors
        served = Served(queue, behind, snapshot.limits.get(queue))
        one = Replay(priorities, served, at_once, touched, visitors, snapshot.crews)
        one.play(snapshot.events, snapshot.ledger.faults)
        if queue == LOOPS:  # how fast a loop turns is its own affair
            one.longest_stall = 0
        whole.add(one)
    return whole


def _given_dependents(snapshot: Snapshot) -> dict[int, list[Instant]]:
    """When jobs that wait for it were added, for each job that others wait for."""
    found: dict[int, list[Instant]] = {}
    for event in snapshot.events:
        for fact in event.facts:
            if fact[:2] == ["job", jobs.ADD] and len(fact) >= 6:
                for needed in {needed for id in fact[5] if id in snapshot.jobs for needed in snapshot.jobs[id].after}:
                    found.setdefault(needed, []).append(event.at)
    return found
