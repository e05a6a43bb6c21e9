"""`python -m rota.worker.orphan`: the orchestrator's side of the frames for one worker whose orchestrator is gone.

The worker starts it, so the worker is its parent. What the store must be told waits in order until the store has taken
it, and the token fences all of it: nobody's newer claim is touched.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from rota.core.claim import TIMEOUT, Failed, Returned
from rota.core.death import DEADLINE, EXIT_ORPHANED, EXITED, HEARTBEAT_TIMEOUT, LOST
from rota.core.errors import RotaError
from rota.core.frames import codec as frames
from rota.core.frames import outcomes
from rota.core.frames.messages import checkpoint, running_tokens, tokens
from rota.core.orchestrator import RENEW_EVERY
from rota.core.times import SECOND
from rota.process.host import since_boot
from rota.process.tree import end_family
from rota.process.watch import Parent
from rota.settings import load
from rota.store.open import open_store
from rota.store.workers.death import Death
from rota.worker import handler
from rota.worker.channel import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Outcome
    from rota.store.claims.exchange import Settled
    from rota.store.store import Store

CANCELLING = 6.0
TELL_AFTER, TRY_AGAIN, LONGEST_ABSENCE, LOOK = 10.0, 0.5, 600.0, 1.0
ALONE = "finished alone after its orchestrator was gone"
DIED = "died after its orchestrator was gone"
TIMED_OUT = "ran past its time-out after its orchestrator was gone"
STOPPED = "was ended after its orchestrator was gone: it was stopped, and nobody heard of it"
TAKEN = "was ended after its orchestrator was gone: its claim was taken or called off"


class Claimed:
    """A job in the worker's hand. `cancels`: it can be told to end; `end_by`: it was, and this is its last moment."""

    def __init__(self, job: int, token: int, deadline: float | None, cancels: bool) -> None:
        self.job = job
        self.token = token
        self.deadline = deadline
        self.cancels = cancels
        self.end_by: float | None = None


class Orphan:
    """One orphaned worker, looked after until it is gone and the store knows how."""

    def __init__(
        self,
        pipe: socket.socket,
        process: Parent,
        worker: str,
        slot: str,
        opened: Callable[[], Store],
        silence: float,
    ) -> None:
        self._pipe: socket.socket | None = pipe
        self._process = process
        self._worker = worker
        self._slot = slot
        self._open = opened
        self._silence = silence
        self._store: Store | None = None
        self._decoder = frames.Decoder()
        self._first: list[frames.Frame] = []
        self._begun = False
        self._owed: deque[Callable[[Store], None]] = deque()
        self._held: dict[int, Claimed] = {}
        self._missing: set[int] = set()
        self._overdue: list[Claimed] = []
        self._death: tuple[str, str] | None = None
        self._dismissed = False
        self._told_lost = False
        self.is_over = False
        self._try_at = self._renew_at = self._renewed_at = time.monotonic()
        self._away_since: float | None = None
        self._stopped_since: float | None = None

    def look_after(self) -> int:
        """Until the worker is gone and the store knows; the exit code."""
        while self._owed or not self.is_over:
            if self._away_since is not None and time.monotonic() - self._away_since > LONGEST_ABSENCE:
                return 1
            self._turn()
        return 0

    def _turn(self) -> None:
        """Wait for a frame, a death or a moment, and act on it."""
        watched = [] if self._pipe is None else [self._pipe.fileno()]
        if self._process.pidfd is not None and not self.is_over:
            watched.append(self._process.pidfd)
        readable(watched, self._patience(time.monotonic()))
        is_gone = self._process.is_gone  # asked before its pipe is read to the end, so that all it said is heard
        self._receive(to_the_end=is_gone)
        now = time.monotonic()
        if is_gone and not self.is_over:
            self._died()
        else:
            self._mind_deadlines(now)
        if now >= self._try_at:
            self._do_what_is_owed()
        if self._begun and not self._owed and not is_gone:
            self._tend_the_claims(time.monotonic())
        if self._held and now - self._renewed_at >= TELL_AFTER and not self._told_lost:
            self._told_lost = True
            self._send(frames.LOST, {})

    def _patience(self, now: float) -> float:
        moments = [now + LOOK]
        if self._owed:
            moments.append(self._try_at)
        elif self._held:
            moments.append(self._renew_at)
        moments += [due for each in self._held.values() if (due := each.end_by or each.deadline) is not None]
        return max(0.0, min(moments) - now)

    # what the worker says

    def _receive(self, to_the_end: bool) -> None:
        while self._pipe is not None:
            try:
                data = self._pipe.recv(1 << 18)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._pipe = None
            for frame in self._decoder.feed(data):
                self._take(frame)
            if not to_the_end:
                return

    def _take(self, frame: frames.Frame) -> None:
        """One message. The first are a hello and as many reports as it announces: those the store takes together."""
        if not self._begun:
            self._first.append(frame)
            if len(self._first) > _number(self._first[0].body.get("told")):
                self._begin()
            return
        body, token = frame.body, _number(frame.body.get("token"))
        match frame.kind:
            case frames.DONE:
                self._settle(token, outcomes.decode(body))
            case frames.CHECKPOINT if token in self._held:
                self._owed.extend(self._keep(kept) for kept in _kept(body))
            case frames.RETURNED:
                for returned in tokens(body):
                    self._settle(returned, Returned())
            case frames.HEALTH:
                self._compare(running_tokens(body))
            case _:
                pass

    def _keep(self, kept: tuple[int, int, str]) -> Callable[[Store], None]:
        return lambda store: store.orphans.keep_checkpoint(self._worker, kept)

    def _compare(self, in_hand: set[int] | None) -> None:
        """Fail a job that two frames in a row do not name: its outcome was lost with a spoiled line."""
        missing = set() if in_hand is None else self._held.keys() - in_hand
        for token in missing & self._missing:
            self._settle(token, Failed(outcomes.LOST_OUTCOME))
        self._missing = missing

    def _begin(self) -> None:
        self._begun = True
        hello, told = self._first[0].body, self._first[1:]
        settled = [_settled(frame.body) for frame in told if frame.kind == frames.DONE]
        kept = [each for frame in told if frame.kind == frames.CHECKPOINT for each in _kept(frame.body)]
        for claimed in _in_hand(hello, time.monotonic()):
            if claimed.token not in (each[1] for each in settled):
                self._held[claimed.token] = claimed
        in_hand = frozenset(self._held)

        def begin(store: Store) -> None:
            began = since_boot()
            self._lose(in_hand - store.orphans.begin(self._worker, in_hand, settled, kept))
            if self._held or not in_hand:
                self._renewed(began)

        self._owed.append(begin)

    def _settle(self, token: int, how: Outcome) -> None:
        claimed = self._held.pop(token, None)
        if claimed is not None:
            settled = (claimed.job, token, how)
            self._owed.append(lambda store: store.orphans.settle(self._worker, settled))

    # the claims in hand

    def _mind_deadlines(self, now: float) -> None:
        """Tell a job that is past its time-out to end; one that cannot be told, or does not, ends with its worker."""
        for claimed in self._held.values():
            if claimed.end_by is not None:
                is_late = now >= claimed.end_by
            elif claimed.deadline is None or now < claimed.deadline:
                continue
            else:
                is_late = not self._cancel(claimed, handler.DEADLINE)
            if is_late:
                self._overdue.append(claimed)
                self._end(DEADLINE, TIMED_OUT)
                return

    def _cancel(self, claimed: Claimed, reason: str) -> bool:
        if claimed.cancels:
            claimed.end_by = time.monotonic() + CANCELLING
            self._send(frames.CANCEL, {"token": claimed.token, "reason": reason})
        return claimed.cancels

    def _tend_the_claims(self, now: float) -> None:
        """Renew them; once there is none, the worker may leave."""
        if not self._held and not self._dismissed:
            self._dismissed = True
            self._send(frames.STOP, {})
        self._mind_a_stopped_one(now)
        if self._held and now >= self._renew_at:
            self._renew()

    def _mind_a_stopped_one(self, now: float) -> None:
        """End a worker that stands still for too long; one that has nothing in hand any more cannot leave by itself."""
        if not self._process.is_stopped:
            self._stopped_since = None
        elif self._stopped_since is None:
            self._stopped_since = now
        elif now - self._stopped_since >= self._silence:
            self._end(HEARTBEAT_TIMEOUT, STOPPED)

    def _renew(self) -> None:
        began, claims = since_boot(), [(claimed.job, claimed.token) for claimed in self._held.values()]

        def renew(store: Store) -> None:
            self._lose(frozenset(self._held) - store.orphans.renew(self._worker, claims))
            if self._held:
                self._renewed(began)

        if not self._persist(renew):
            self._renew_at = time.monotonic() + TRY_AGAIN

    def _renewed(self, began: int) -> None:
        self._renewed_at, self._told_lost = time.monotonic(), False
        self._renew_at = self._renewed_at + RENEW_EVERY / SECOND
        self._send(frames.RENEWED, {"at": began})

    def _lose(self, tokens: frozenset[int]) -> None:
        """Someone else may run these now: these runs of them end, and the worker with the last."""
        lost = [claimed for token in tokens if (claimed := self._held.pop(token, None))]  # some may have ended since
        if lost and not self._held:
            self._dismissed = True
            self._send(frames.LOST, {})
            self._end(LOST, TAKEN)
        for claimed in lost if self._held else ():
            self._cancel(claimed, handler.CANCELLED)

    def _end(self, reason: str, text: str) -> None:
        self._death = (reason, text)
        self._process.end_session()  # what hides in other sessions is ended once it is gone

    def _died(self) -> None:
        """The process is gone: so must be all that it started. Then the store may know."""
        self._process.end_session()
        end_family(self._worker)
        self.is_over = True
        if self._first and not self._begun:
            self._begin()
        in_hand, self._held = self._held, {}
        if self._death is not None:
            reason, text = self._death
        else:
            reason, text = (EXITED, ALONE) if not in_hand and self._begun else (LOST, DIED)
        timed_out = Failed(handler.TIMED_OUT, reason=TIMEOUT)
        last = [(late.job, late.token, timed_out) for late in self._overdue if late.token in in_hand]
        in_peace = reason == EXITED
        code = EXIT_ORPHANED if in_peace else None
        death = Death(self._worker, self._slot, reason, text, code, asked=in_peace)
        self._owed.append(lambda store: store.orphans.end(death, last))

    # the store

    def _do_what_is_owed(self) -> None:
        """In order, as far as the store takes it; what it does not take is tried again after a pause."""
        while self._owed:
            if not self._persist(self._owed[0]):
                self._try_at = time.monotonic() + TRY_AGAIN
                return
            self._owed.popleft()

    def _persist(self, what: Callable[[Store], None]) -> bool:
        """Whether the store took it. Whatever kept it from that may pass: a full disk, a database being restored."""
        try:
            if self._store is None:
                self._store = self._open()
            what(self._store)
        except RotaError as problem:
            print(f"{self._worker}: {problem}", file=sys.stderr)
            if self._store is not None:
                self._store.close()
                self._store = None
            if self._away_since is None:
                self._away_since = time.monotonic()
            return False
        self._away_since = None
        return True

    def _send(self, kind: str, body: dict[str, object]) -> None:
        """The worker reads all the time, so there is room; one that is gone needs no word."""
        try:
            if self._pipe is not None:
                self._pipe.send(frames.encode(kind, body))
        except OSError:
            pass


def _in_hand(hello: dict[str, Any], now: float) -> list[Claimed]:
    """The jobs that a worker says it has in hand."""
    told, found = hello.get("in_hand"), []
    for each in told if isinstance(told, list) else ():
        match each:
            case {"job": int(job), "token": int(token)} if job == _number(job) and token == _number(token):
                left = each.get("seconds_left")
                deadline = now + left if isinstance(left, int | float) else None
                found.append(Claimed(job, token, deadline, each.get("cancels") is True))
            case _:
                pass
    return found


def _settled(body: dict[str, Any]) -> Settled:
    return (_number(body.get("job")), _number(body.get("token")), outcomes.decode(body))


def _kept(body: dict[str, Any]) -> list[tuple[int, int, str]]:
    """The checkpoint that a frame tells, if it is one."""
    text = checkpoint(body)
    return [] if text is None else [(_number(body.get("job")), _number(body.get("token")), text)]


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else 0


def main() -> int:
    os.chdir(os.environ["ROTA_FOLDER"])
    process = Parent(int(os.environ["ROTA_WORKER_PID"]))
    pipe = socket.socket(fileno=int(os.environ["ROTA_FRAME_FD"]))
    pipe.setblocking(False)
    worker, settings = os.environ["ROTA_WORKER_ID"], load()

    def opened() -> Store:
        return open_store(settings.db, settings, actor=worker)

    silence = settings.health.silent * settings.health.misses / SECOND
    return Orphan(pipe, process, worker, os.environ["ROTA_SLOT"], opened, silence).look_after()
