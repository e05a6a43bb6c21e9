"""What workers say on their pipes, and what follows from it. Whatever a frame holds, nothing raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core import frame as frames
from rota.core import report, schedule, slot, source
from rota.core.claim import Returned
from rota.core.death import INVALID_FRAMES
from rota.core.ids import run_id
from rota.orchestrator.handout import usual_after
from rota.orchestrator.upkeep import now

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.orchestrator.child import Child
    from rota.orchestrator.log import Say
    from rota.orchestrator.place import Place
    from rota.orchestrator.tracked import Tracked
    from rota.orchestrator.upkeep import Upkeep
    from rota.orchestrator.wishes import Wishes
    from rota.orchestrator.work import Work


class Hearing:
    """Takes the frames of all workers."""

    def __init__(
        self,
        work: Work,
        wishes: Wishes,
        upkeep: Upkeep,
        tracked: Tracked,
        say: Say,
        is_up: Callable[[Place, Child], None],
        end: Callable[[Child, str, str], None],
    ) -> None:
        self._work = work
        self._wishes = wishes
        self._upkeep = upkeep
        self._tracked = tracked
        self._say = say
        self._is_up = is_up
        self._end = end

    def take(self, place: Place, child: Child, frame: frames.Frame) -> None:
        body = frame.body
        match frame.kind:
            case frames.DONE:
                self._settle(child, body)
            case frames.HEALTH:
                self._feel(place, child, body)
            case frames.PROGRESS:
                child.report["progress"] = report.progress(body)
                self._upkeep.told(child)
            case frames.CHECKPOINT:
                self._keep(child, body)
            case frames.RETURNED:
                self._take_back(child, report.tokens(body))
            case frames.LOG:
                place_name, worker, first = child.names
                run = next((run for held in child.in_hand if (run := run_id(held.token)) == body.get("run")), first)
                self._say(str(body.get("message", ""))[:2000], place_name, worker, run)
            case frames.HELLO if body.get("protocol") not in (frames.PROTOCOL, frames.PROTOCOL - 1):
                self._end(child, INVALID_FRAMES, f"it speaks protocol {body.get('protocol')!r:.20}")
            case frames.HELLO:
                sources = source.heard(body)
                self._upkeep.declare(sources, schedule.heard(body))
                self._work.fills |= bool(sources)
                self._tracked.learn(body)
                child.concurrency = report.concurrency(body)
                child.cancels, child.wants_whole = report.kinds(body.get("cancels")), report.kinds(body.get("whole"))
            case _:
                pass

    def _settle(self, child: Child, body: dict[str, Any]) -> None:
        """A job ended. Windows run in order, so it is the first that the worker holds, or one of several in hand."""
        held = child.holding(body.get("token"))
        if held is None:
            child.health = child.health.babble()
            return
        child.put_down(held)
        at = now()
        child.usual = usual_after(child.usual, at - child.job_started_at)
        child.job_started_at, child.recalled = at, False
        outcome = report.outcome(body)
        self._tracked.reported(child.worker_id, held, outcome)
        self._work.report(child.worker_id, (held.job_id, held.token, outcome))
        if child.report.pop("progress", None) is not None:
            self._upkeep.told(child)

    def _keep(self, child: Child, body: dict[str, Any]) -> None:
        """What the handler of the job in hand wants its next attempt to know."""
        text, held = report.checkpoint(body), child.holding(body.get("token"))
        if text is not None and held is not None:
            self._work.keep((text, held.job_id, held.token))

    def _feel(self, place: Place, child: Child, body: dict[str, Any]) -> None:
        match body.get("status"):
            case "recovering":
                child.health = child.health.recovering(report.seconds(body), now())
            case "stopping":  # a sign of life too: its last job may take longer than silence is borne
                child.stopping, child.health = True, child.health.healthy(now())
            case "healthy":
                child.health = child.health.healthy(now())
                if place.state == slot.STARTING and child.ending is None:
                    self._is_up(place, child)
            case _:
                child.health = child.health.babble()
                return
        metrics = report.metrics(body)
        if metrics != child.report.get("metrics", {}):
            child.report["metrics"] = metrics
            self._upkeep.told(child)

    def _take_back(self, child: Child, tokens: set[int]) -> None:
        for held in [held for held in child.held if held.token in tokens]:
            child.put_down(held)
            self._work.report(child.worker_id, (held.job_id, held.token, Returned()))
        if self._wishes.returned(child.worker_id):
            self._work.wake()
