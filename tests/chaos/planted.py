"""One small storm with everything in it, which `./dev planted` runs in a copy of the sources that has a bug planted.

`python -m tests.chaos.planted FOLDER` runs it there and prints the numbers of the invariants that did not hold.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from rota.core import slot as slots
from rota.core.times import MILLISECOND
from rota.lab.chaos.invariants import check, replay_of
from rota.lab.chaos.lab_crew import SETTINGS, START_WITHIN, LabCrew
from rota.lab.chaos.plan import (
    CANCEL,
    COMMANDS,
    COROUTINES,
    FLAKY,
    FUNCTIONS,
    KILL_BUSY,
    KILL_IDLE,
    PAUSE,
    POISON,
    SETTLE_LATE,
    WORK,
    Fault,
    Offer,
    Options,
    Plan,
    PlannedJob,
    single_crew,
)
from rota.lab.chaos.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.store import Store

AT_ONCE, RESTARTS = 2, 2
PATIENCE, WHOLE_AGAIN_WITHIN = 5.0, 3.0
POOLS = {FUNCTIONS: 2, COROUTINES: 1, COMMANDS: 1}
# The worker of commands starts only once, so that its slot is given up after the first kill.
APP = """
import os
from rota.lab.chaos.handlers import app
from rota.lab.chaos.plan import COMMANDS


@app.setup(queue=COMMANDS)
def only_once():
    if os.path.exists("up-before"):
        os.kill(os.getpid(), 9)
    open("up-before", "w").close()
"""


class FragileCrew(LabCrew):
    """A crew that counts as whole even if slots were given up, and is not waited for long once it was whole."""

    _was_whole = False

    def wait_until_whole(self, store: Store, within: float = START_WITHIN) -> bool:
        again = self._was_whole
        deadline = time.monotonic() + (WHOLE_AGAIN_WITHIN if again else within)
        while time.monotonic() < deadline:
            states = [slot.status for slot in store.slots.all()]
            up = states.count(slots.UP)
            if up + states.count(slots.FAILED) == self.workers and up == len(store.workers.list()):
                self._was_whole = True
                return True
            time.sleep(0.02)
        return False


def plan() -> Plan:
    # The last one waits for one that cannot have begun, because the queue is paused.
    waiting = PlannedJob(36, WORK, 5, 5, (35,))
    paused = Offer(900 * MILLISECOND, tuple(_while_paused()))
    offers = (Offer(0, tuple(_first())), paused, Offer(950 * MILLISECOND, (waiting,)))
    faults = (
        Fault(20 * MILLISECOND, SETTLE_LATE, 0.0),
        Fault(200 * MILLISECOND, KILL_BUSY, 0.9),
        Fault(300 * MILLISECOND, KILL_IDLE, 0.0),
        Fault(500 * MILLISECOND, PAUSE, 0.0, 700 * MILLISECOND),
        Fault(1000 * MILLISECOND, CANCEL, 0.5),  # not the last one: the late claim was on that
    )
    return Plan(Options(seed=0, jobs=0, minutes=0.02, others=False), offers, faults)


def _first() -> Iterator[PlannedJob]:
    """Short ones of two priorities, one that fails once, and long ones."""
    yield from (PlannedJob(number, WORK, 20, number % 2) for number in range(12))
    yield PlannedJob(12, FLAKY, 5, 1)
    yield PlannedJob(13, WORK, 5, 1)
    yield from (PlannedJob(number, WORK, 300, 0) for number in (14, 15))
    yield from (PlannedJob(number, WORK, 60, 0, queue=COROUTINES) for number in range(16, 26))


def _while_paused() -> Iterator[PlannedJob]:
    """More of them, and last of all one that kills its workers."""
    yield from (PlannedJob(number, WORK, 100, number % 2) for number in range(26, 36))
    yield PlannedJob(37, POISON, 5, -1)


def run_small_storm(folder: str) -> list[str]:
    """Run the small storm, and return the invariants that did not hold."""
    with open(os.path.join(folder, "planted.py"), "w") as file:
        file.write(APP)
    limits = {"ROTA_RESTART_LIMIT": str(RESTARTS), "ROTA_RESTART_WINDOW": "1m"}
    crew = FragileCrew(folder, single_crew(**POOLS), "planted:app", {**SETTINGS, **limits})
    try:
        with crew.open() as store:
            store.queues.set(COROUTINES, concurrency=AT_ONCE)
        storm = Scenario(crew, plan(), lambda text: None, PATIENCE)
        try:
            snapshot = storm.run()
        finally:
            storm.close()
    finally:
        crew.close()
    found = check(snapshot, replay_of(snapshot))
    print(*(f"{each.invariant} {each.text}" for each in found), *snapshot.watch.missed, sep="\n", file=sys.stderr)
    return sorted({each.invariant for each in found})


if __name__ == "__main__":
    print(json.dumps(run_small_storm(sys.argv[1])))
