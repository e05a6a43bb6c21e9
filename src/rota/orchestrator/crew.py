"""The crew: slots kept filled, work handed out, deaths seen and acted on. What it decides is decided in `core`."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

from rota.core import frame as frames
from rota.core import health, slot
from rota.core.claim import Returned
from rota.core.death import DEADLINE, OPERATOR
from rota.core.errors import RotaError
from rota.core.health import HealthPolicy, InHand
from rota.core.ids import run_id
from rota.core.times import SECOND, format_duration
from rota.orchestrator import ledger as urgency
from rota.orchestrator import report
from rota.orchestrator.child import Child
from rota.orchestrator.place import Place
from rota.orchestrator.stopping import Stopping
from rota.orchestrator.work import Work
from rota.store.host import host_id
from rota.store.orchestrators import Idle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rota.core.restart import RestartPolicy
    from rota.core.times import Instant
    from rota.orchestrator.ledger import Ledger
    from rota.orchestrator.loop import Loop
    from rota.store.orchestrators import Handout, Wishes
    from rota.store.slots import Slot
    from rota.store.store import Store

RENEW_EVERY = 4 * SECOND
POLL_EVERY = 2 * SECOND


def now() -> Instant:
    """The loop's clock: it only measures durations."""
    return time.monotonic_ns() // 1000


class Crew:
    """One orchestrator's slots and workers."""

    def __init__(
        self,
        loop: Loop,
        ledger: Ledger,
        policy: RestartPolicy,
        environment: Mapping[str, str],
        say: Callable[[str, str], None],
    ) -> None:
        self._loop = loop
        self._ledger = ledger
        self._environment = environment
        self._say = say
        self._id = 0
        self._places: dict[str, Place] = {}
        self._work = Work(ledger, self._deliver, self._refused, self._give_up)
        self._crew = ""
        self._wish = 0
        self._asking = False
        self._recalled: set[str] = set()
        self._renew_at: Instant = 0
        self._poll_at: Instant = 0
        self._stopping: Stopping | None = None
        self._policy = policy
        self._health = HealthPolicy()
        self.gone = False
        self.exit_code = 0

    # beginning and end

    def begin(self, crew: str, pools: Mapping[str, int]) -> None:
        """Join the store, take the crew's slots and fill them."""
        self._crew = crew

        def join(store: Store) -> tuple[int, list[Slot], Any]:
            return store.orchestrators.join(crew), store.slots.take(crew, host_id(), pools), store.database.listen()

        def joined(answer: tuple[int, list[Slot], Any]) -> None:
            self._id, slots, listener = answer
            self._loop.watch(listener.fileno(), lambda: self._wake(listener))
            for each in slots:
                place = self._places[each.name] = Place(each.name, each.queue, slot.EMPTY)
                if each.history.failed_at is not None:
                    place.state = slot.FAILED
                    self._say(each.name, f"failed: {each.history.failure_reason}; `rota reset {each.name}` starts it")
                else:
                    self._fill(place)
            self._renew_at = now() + RENEW_EVERY
            self._ask_wishes()

        self._ledger.ask(urgency.WORK, join, joined)

    def stop(self) -> None:
        """Finish what is held, then leave; asked a second time, leave now."""
        if self._stopping is not None:
            self._stopping.hurry(now())
            return
        self._stopping = Stopping(now())
        self._say("orchestrator", "stopping: what is in hand is finished first; once more means now")
        for place in self._places.values():
            if place.child is None:
                place.state, place.start_at = slot.EMPTY, None
            else:
                place.state = slot.STOPPING
                place.child.ask_to_stop()

    # time

    def tick(self) -> float:
        """Do what is due; the moment of the monotonic clock at which to come again."""
        at = now()
        for place in self._places.values():
            if place.child is not None:
                self._look(place, place.child, at)
            elif place.start_at is not None and at >= place.start_at and self._stopping is None:
                place.start_at = None
                self._fill(place)
        if self._id and at >= self._renew_at:
            self._renew_at = at + RENEW_EVERY
            self._renew()
        if at >= self._poll_at:
            self._poll_at = at + POLL_EVERY
            self._work.wake()
            self._ask_wishes()
        if self._stopping is not None:
            self._step_stop(self._stopping, at)
        if self._id:
            self._work.turn(self._id, [] if self._stopping is not None else self._idle())
        dues = [place.start_at for place in self._places.values() if place.start_at is not None]
        return min([self._renew_at, self._poll_at, *dues]) / SECOND

    def _step_stop(self, stopping: Stopping, at: Instant) -> None:
        """Wait for the last worker and the last report, with less and less patience; then leave the store."""
        left = [place.child for place in self._places.values() if place.child is not None]
        if left:
            number = stopping.due(at)
            if number is not None:
                for child in left:
                    child.signal(number)
        elif self._work.is_settled and not self.gone:
            self.gone = True
            self._ledger.ask(urgency.END, lambda store: store.orchestrators.leave(self._id), lambda _: None)

    def _look(self, place: Place, child: Child, at: Instant) -> None:
        """Is the worker well, and is its job within its time?"""
        child.flush()
        held = child.held[0] if child.held else None
        deadline = child.job_started_at + held.timeout if held is not None and held.timeout else None
        if deadline is not None and at >= deadline and child.ending is None:
            self._end(child, DEADLINE, f"job {held.job_id if held else 0} is past its time-out")
            return
        in_hand = InHand(
            held.job_id if held else None, deadline, child.health.state == health.LATE and child.is_stopped()
        )
        child.health, reason = child.health.look(self._health, in_hand, at)
        if reason is not None and child.ending is None:
            self._end(child, reason, reason.replace("_", " "))

    def _end(self, child: Child, reason: str, text: str) -> None:
        self._say(child.slot, f"killing {child.worker_id}: {text}")
        child.ending = reason
        child.signal(signal.SIGKILL)

    # workers

    def _fill(self, place: Place) -> None:
        place.state = slot.STARTING

        def hire(store: Store) -> str:
            worker = store.orchestrators.hire(self._id, place.name, place.queue)
            store.slots.move(place.name, slot.STARTING, worker)
            return worker

        def hired(worker: str | RotaError) -> None:
            if isinstance(worker, str):
                self._spawn(place, worker)

        self._ledger.ask(urgency.WORK, hire, hired)

    def _spawn(self, place: Place, worker: str) -> None:
        if self._stopping is not None:
            return
        try:
            child = Child(place.name, place.queue, worker, self._environment, now())
        except OSError as problem:
            self._say(place.name, f"could not be started: {problem.strerror}; trying again")
            place.state, place.start_at = slot.BACKOFF, now() + SECOND
            return
        place.child = child
        self._loop.watch(child.pidfd, lambda: self._died(place, child))
        self._loop.watch(child.pipe.fileno(), lambda: self._hear(place, child))
        self._loop.watch(child.errors.fileno(), lambda: self._hear_errors(child))
        self._say(place.name, f"{worker} started, pid {child.pid}")

    def _hear(self, place: Place, child: Child) -> None:
        found, closed = child.read()
        for frame in found:
            self._take(place, child, frame)
        if closed:
            self._loop.forget_all(child.pipe.fileno())

    def _hear_errors(self, child: Child) -> None:
        data = child.read_errors()
        for line in data.decode(errors="replace").splitlines():
            self._say(child.slot, line)
        if not data:
            self._loop.forget_all(child.errors.fileno())
            child.errors_closed = True

    def _take(self, place: Place, child: Child, frame: frames.Frame) -> None:
        """One message of a worker; whatever it holds, nothing raises."""
        body = frame.body
        match frame.kind:
            case frames.HEALTH if body.get("status") == "recovering":
                child.health = child.health.recovering(report.seconds(body), now())
            case frames.HEALTH:
                self._is_well(place, child)
            case frames.DONE:
                self._settle(child, body)
            case frames.RETURNED:
                tokens = report.tokens(body)
                for held in [held for held in child.held if held.token in tokens]:
                    child.held.remove(held)
                    self._work.report(child.worker_id, (held.job_id, held.token, Returned()))
                self._answer_recall(child)
            case frames.LOG:
                self._say(child.slot, str(body.get("message", ""))[:2000])
            case _:
                pass

    def _is_well(self, place: Place, child: Child) -> None:
        child.health = child.health.healthy(now())
        if place.state == slot.STARTING:
            place.state = slot.UP
            self._work.wake()
            name, worker = place.name, child.worker_id
            self._ledger.ask(urgency.WORK, lambda store: store.slots.move(name, slot.UP, worker), lambda _: None)
            self._say(name, f"{worker} is up")

    def _settle(self, child: Child, body: dict[str, Any]) -> None:
        """A job ended. Windows run in order, so it is the first that the worker holds."""
        if not child.held or child.held[0].token != body.get("token"):
            child.health = child.health.babble()
            return
        held, at = child.held.popleft(), now()
        child.window = child.window.after(at - child.job_started_at, 1)
        child.job_started_at = at
        self._work.report(child.worker_id, (held.job_id, held.token, report.outcome(body)))

    def _died(self, place: Place, child: Child) -> None:
        """Reap, hear it out, end what is left of its session, then write it down and release what it held."""
        ended = child.reap()
        for frame in child.last_frames():
            self._take(place, child, frame)
        if not child.errors_closed:
            self._hear_errors(child)
        self._loop.forget_all(child.pidfd, child.pipe.fileno(), child.errors.fileno())
        child.signal(signal.SIGKILL)
        place.child = None
        death, own = child.death(ended), self._work.take(child.worker_id)
        child.close()
        if not death.asked:
            why = f" ({death.reason})" if death.reason != ended.reason else ""
            self._say(place.name, f"{child.worker_id} {ended.text}{why}")
        self._answer_recall(child)
        place.state = slot.EMPTY if death.asked else slot.BACKOFF
        if not place.wanted:
            del self._places[place.name]
        self._ledger.ask(
            urgency.DEATH,
            lambda store: store.orchestrators.record_death(death, own, self._policy),
            lambda after: self._after_death(place, after),
        )

    def _after_death(self, place: Place, after: tuple[int | None, str | None] | RotaError) -> None:
        self._work.wake()
        if isinstance(after, RotaError) or self._stopping is not None or place.name not in self._places:
            return
        delay, failure = after
        if delay is None:
            place.state = slot.FAILED
            self._say(place.name, f"failed: {failure}; `rota reset {place.name}` starts it again")
        else:
            place.start_at = now() + delay
            if delay:
                self._say(place.name, f"starts again in {format_duration(delay)}")

    # work

    def _idle(self) -> list[Idle]:
        """Workers with room: two windows of short jobs, or one long job."""
        found = []
        for place in self._places.values():
            child = place.child
            if child is None or place.state != slot.UP or child.stopping:
                continue
            size, held = child.window.size, len(child.held)
            room = 1 - held if size == 1 else 2 * size - held if held <= size else 0
            if room > 0:
                found.append(Idle(child.worker_id, place.queue, room))
        return found

    def _deliver(self, claims: Sequence[Handout]) -> None:
        """Hand claims to their workers; those of one that died meanwhile go back with its death."""
        by_worker: dict[str, list[Handout]] = {}
        for claim in claims:
            by_worker.setdefault(claim.worker_id, []).append(claim)
        for place in self._places.values():
            if place.child is not None and place.child.worker_id in by_worker:
                place.child.hand(by_worker[place.child.worker_id], now())

    def _refused(self, token: int) -> None:
        self._say("orchestrator", f"the outcome of {run_id(token)} was refused: its claim was taken or called off")

    def _renewed(self, answer: Instant | RotaError) -> None:
        if isinstance(answer, RotaError):
            self._give_up(answer)

    def _give_up(self, problem: RotaError) -> None:
        self._say("orchestrator", str(problem))
        self.exit_code = 1
        if self._stopping is None:
            self.stop()

    # wishes

    def _wake(self, listener: Any) -> None:
        listener.clear()
        self._work.wake()
        self._ask_wishes()

    def _ask_wishes(self) -> None:
        if self._id and not self._asking and self._stopping is None:
            self._asking = True
            id, crew = self._id, self._crew
            self._ledger.ask(urgency.WORK, lambda store: store.orchestrators.wishes(id, crew), self._wished)

    def _wished(self, wishes: Wishes | RotaError) -> None:
        """Carry out what people wished since the last time."""
        self._asking = False
        if isinstance(wishes, RotaError) or wishes.number == self._wish or self._stopping is not None:
            return
        self._wish = wishes.number
        self._resize({each.name: each for each in wishes.slots if each.wanted})
        for place in self._places.values():
            child = place.child
            if child is None:
                continue
            if child.worker_id in wishes.to_stop:
                child.ask_to_stop()
            if child.held and child.held[0].token not in wishes.held:
                self._end(child, OPERATOR, f"job {child.held[0].job_id} was called off")
            elif len(child.held) > 1:
                self._recalled.add(child.worker_id)
                child.send(frames.RECALL, {})
        if not self._recalled:
            self._renew()

    def _resize(self, wanted: dict[str, Slot]) -> None:
        """Fill slots that were added or reset; empty those that are no longer wanted."""
        for name, each in wanted.items():
            place = self._places.setdefault(name, Place(name, each.queue, slot.EMPTY))
            is_reset = place.state == slot.FAILED and each.history.failed_at is None
            is_hurried = place.state == slot.BACKOFF and place.start_at is not None and not each.history.restarts
            if place.state == slot.EMPTY or is_reset or is_hurried:
                place.start_at = None
                self._fill(place)
        for name in [name for name in self._places if name not in wanted]:
            place = self._places[name]
            place.start_at, place.wanted = None, False
            if place.child is None:
                del self._places[name]
            else:
                place.state = slot.STOPPING
                place.child.ask_to_stop()

    def _answer_recall(self, child: Child) -> None:
        """Once every worker has given back what it had not started, the wish is carried out."""
        if child.worker_id in self._recalled:
            self._recalled.discard(child.worker_id)
            if not self._recalled:
                self._work.wake()
                self._renew()

    def _renew(self) -> None:
        id, answered = self._id, 0 if self._recalled else self._wish
        self._ledger.ask(urgency.RENEWAL, lambda store: store.orchestrators.renew(id, answered), self._renewed)
