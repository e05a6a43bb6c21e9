"""Handle the frames of workers. Whatever a frame holds, nothing raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core import schedule, slot, source
from rota.core.claim import Failed, Returned
from rota.core.death import INVALID_FRAMES
from rota.core.frames import codec as frames
from rota.core.frames import messages, outcomes
from rota.core.ids import run_id
from rota.orchestrator.dispatch import usual_after
from rota.orchestrator.maintenance import now

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.core.frames.assignment import Assignment
    from rota.orchestrator.directives import Directives
    from rota.orchestrator.dispatch import Dispatch
    from rota.orchestrator.maintenance import Maintenance
    from rota.orchestrator.slot import SupervisedSlot
    from rota.orchestrator.tracking import Tracked
    from rota.orchestrator.worker_process import WorkerProcess
    from rota.process.log import Say


class WorkerMessages:
    """Takes the frames of all workers."""

    def __init__(
        self,
        work: Dispatch,
        directives: Directives,
        maintenance: Maintenance,
        tracked: Tracked,
        say: Say,
        is_up: Callable[[SupervisedSlot, WorkerProcess], None],
        end: Callable[[WorkerProcess, str, str], None],
    ) -> None:
        self._dispatch = work
        self._directives = directives
        self._maintenance = maintenance
        self._tracked = tracked
        self._say = say
        self._is_up = is_up
        self._end = end

    def take(self, place: SupervisedSlot, child: WorkerProcess, frame: frames.Frame) -> None:
        body = frame.body
        match frame.kind:
            case frames.DONE:
                self._settle(child, body)
            case frames.HEALTH:
                self._on_health(place, child, body)
            case frames.PROGRESS:
                child.report["progress"] = messages.progress(body)
                self._maintenance.on_report(child)
            case frames.CHECKPOINT:
                self._keep(child, body)
            case frames.RETURNED:
                self._take_back(child, messages.tokens(body))
            case frames.LOG:
                place_name, worker, first = child.names
                run = next((run for held in child.running if (run := run_id(held.token)) == body.get("run")), first)
                self._say(str(body.get("message", ""))[:2000], place_name, worker, run)
            case frames.HELLO if body.get("protocol") not in (frames.PROTOCOL, frames.PROTOCOL - 1):
                self._end(child, INVALID_FRAMES, f"it speaks protocol {body.get('protocol')!r:.20}")
            case frames.HELLO if child.has_said_hello:
                child.health = child.health.on_garbage()
            case frames.HELLO:
                child.has_said_hello = True
                sources = source.from_hello(body)
                self._maintenance.declare(child.worker_id, sources, schedule.from_hello(body))
                self._dispatch.fills |= bool(sources)
                self._tracked.learn(body)
                child.concurrency, child.kinds = messages.concurrency(body), messages.kinds(body.get("tasks"))
                child.cancels, child.wants_whole = (
                    messages.kinds(body.get("cancels")),
                    messages.kinds(body.get("whole")),
                )
            case _:
                pass

    def _settle(self, child: WorkerProcess, body: dict[str, Any]) -> None:
        """Take the outcome of a job. Windows run in order: it is the first that is held, or one of several running."""
        token = body.get("token")
        if child.concurrency == 1 and child.held and child.held[0].token != token:
            before = messages.count_before(token, [held.token for held in child.held])
            self._lose(child, list(child.held)[:before])
        held = child.holding(token)
        if held is None:
            child.health = child.health.on_garbage()
            return
        child.put_down(held)
        at = now()
        child.usual = usual_after(child.usual, at - child.job_started_at)
        child.job_started_at, child.recalled = at, False
        outcome = self._dispatch.pool_backoff.ended(child, held, outcomes.decode(body), at)
        self._tracked.reported(child.worker_id, held, outcome)
        self._dispatch.report(child.worker_id, (held.job_id, held.token, outcome))
        if child.report.pop("progress", None) is not None:
            self._maintenance.on_report(child)

    def _compare(self, child: WorkerProcess, body: dict[str, Any]) -> None:
        """Find jobs whose outcome was lost with a spoiled line: the worker does not name them among its running jobs.

        Windows run in order, so a later running job means that all before it are over. One that names none may have a
        job still on its way: only a second such frame counts, and then only once it has answered a recall.
        """
        if child.concurrency == 1 and body.get("current_job") is not None:
            before = messages.count_before(body["current_job"], [held.job_id for held in child.held])
            self._lose(child, list(child.held)[:before])
            child.missing, child.recall_answered = frozenset(), None
            return
        named = messages.running_tokens(body)
        if named is None:
            return
        missing = frozenset(held.token for held in child.running) - named
        again = missing & child.missing
        if again and child.recall_answered:
            self._lose(child, [held for held in child.running if held.token in again])
            if not named:
                self._take_back(child, {held.token for held in child.held})
        elif again:
            if child.recall_answered is None:  # who does not answer is not asked once more with every frame
                child.recall_answered = False
                child.recall()
        else:
            child.recall_answered = None
        child.missing = missing

    def _lose(self, child: WorkerProcess, lost: Sequence[Assignment]) -> None:
        """Fail jobs that were started and whose outcome was lost."""
        for held in lost:
            self._say(f"job {held.job_id} is over, and {outcomes.LOST_OUTCOME}", *child.names)
            child.put_down(held)
            child.job_started_at, child.recalled = now(), False
            self._dispatch.report(child.worker_id, (held.job_id, held.token, Failed(outcomes.LOST_OUTCOME)))

    def _keep(self, child: WorkerProcess, body: dict[str, Any]) -> None:
        """Keep a checkpoint of a running job for its next attempt."""
        text, held = messages.checkpoint(body), child.holding(body.get("token"))
        if text is not None and held is not None:
            self._dispatch.keep((text, held.job_id, held.token))

    def _on_health(self, place: SupervisedSlot, child: WorkerProcess, body: dict[str, Any]) -> None:
        match body.get("status"):
            case "recovering":
                child.health = child.health.recovering(messages.recovery_seconds(body), now())
            case "stopping":  # a sign of life too: its last job may take longer than silence is borne
                child.stopping, child.health = True, child.health.healthy(now())
            case "healthy":
                child.health = child.health.healthy(now())
                if place.state == slot.STARTING and child.ending is None:
                    self._is_up(place, child)
            case _:
                child.health = child.health.on_garbage()
                return
        self._compare(child, body)
        metrics = messages.metrics(body)
        if metrics != child.report.get("metrics", {}):
            child.report["metrics"] = metrics
            self._maintenance.on_report(child)

    def _take_back(self, child: WorkerProcess, tokens: set[int]) -> None:
        if child.recall_answered is not None:
            child.recall_answered = True
        for held in [held for held in child.held if held.token in tokens]:
            child.put_down(held)
            self._dispatch.report(child.worker_id, (held.job_id, held.token, Returned()))
        if self._directives.returned(child.worker_id):
            self._dispatch.wake()
