"""Jobs that wait behind another in their worker's window, when people pause their queue."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

pytestmark = pytest.mark.both_stores

PAUSES = '''
from rota.store.directives import until_acknowledged


@app.task(queue="tag")
def pause() -> None:
    """Pause its own queue as `rota pause` does, and end as soon as that is answered: its window is still in hand."""
    app.store.queues.pause("tag")
    note("paused")
    until_acknowledged(app.store, "tag is paused")
    note("answered")
'''


def test_of_a_window_in_hand_nothing_starts_once_a_pause_is_answered_and_all_finishes_after_resume(crew: Crew) -> None:
    crew.teach(PAUSES)
    warm = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(300))]
    crew.start("tag=1")
    crew.done(*warm)
    pauses, *behind = crew.app.enqueue_many([crew.new("pause"), *(crew.new("tag", n=1000 + n) for n in range(20))])
    crew.done(pauses.id)
    ids = [job.id for job in behind]
    since = crew.app.store.now()
    eventually(lambda: crew.app.store.now() > since + 1_500_000)
    assert crew.ledger()[-1] == "answered", "nothing was begun since"
    assert {job.status for job in map(crew.app.jobs.get, ids)} == {"ready"}
    assert crew.up(1) and [run for id in ids for run in crew.app.claims.runs(id)] == []
    crew.call("resume", "tag")
    assert {job.attempts for job in crew.done(*ids)} == {1}
    assert crew.ledger()[-20:] == [str(1000 + n) for n in range(20)]


def test_a_holder_finishes_under_a_pause_and_what_was_behind_it_waits_for_resume(crew: Crew) -> None:
    warm = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(300))]
    crew.start("tag=1")
    crew.done(*warm)
    holder, *behind = crew.app.enqueue_many(
        [crew.new("hold", name="a"), *(crew.new("tag", n=1000 + n) for n in range(20))]
    )
    eventually(lambda: crew.held_by("a"))
    crew.call("pause", "tag")
    eventually(lambda: {crew.app.jobs.get(job.id).status for job in behind} == {"ready"})
    crew.let_go("a")
    assert crew.done(holder.id)[0].attempts == 1
    since = crew.app.store.now()
    eventually(lambda: crew.app.store.now() > since + 1_500_000)
    assert crew.ledger()[-1].startswith("hold a "), "nothing was begun since"
    crew.call("resume", "tag")
    assert {job.attempts for job in crew.done(*(job.id for job in behind))} == {1}


FREEZES = '''
@app.task(queue="tag")
def freeze() -> None:
    """Stand still at once, with the whole window in hand."""
    note(f"frozen {os.getpid()}")
    os.kill(os.getpid(), signal.SIGSTOP)
'''


def frozen(crew: Crew) -> list[int]:
    """The pids of the workers that stood still so far."""
    return [int(line.split()[1]) for line in crew.ledger() if line.startswith("frozen ")]


def freeze(crew: Crew) -> tuple[int, list[int]]:
    """Freeze the worker in the first of 21 jobs: its pid, and the jobs."""
    before = len(frozen(crew))
    added = crew.app.enqueue_many([crew.new("freeze"), *(crew.new("tag", n=1000 + n) for n in range(20))])
    return eventually(lambda: frozen(crew)[before:])[0], [job.id for job in added]


def freeze_with_a_window(crew: Crew) -> tuple[int, list[int]]:
    """Freeze the worker while it holds further jobs.

    A slow moment of the machine shrinks the window to one job. Then nothing waits behind the frozen one, so try again.
    """
    while True:
        pid, ids = freeze(crew)
        if any(crew.app.jobs.get(id).status == "active" for id in ids[1:]):
            return pid, ids
        os.kill(pid, signal.SIGCONT)
        crew.done(*ids)


def test_a_pause_is_not_answered_while_a_worker_that_stands_still_could_begin_what_it_holds(crew: Crew) -> None:
    crew.teach(FREEZES)
    warm = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(300))]
    crew.start("tag=1")
    crew.done(*warm)
    pid, ids = freeze_with_a_window(crew)
    assert f"orchestrator {crew.pid}" in crew.call("pause", "tag", code=6)
    os.kill(pid, signal.SIGCONT)
    crew.call("resume", "tag")
    assert {job.attempts for job in crew.done(*ids)} == {1}
