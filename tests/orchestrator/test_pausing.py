"""Jobs that wait behind another in their worker's window, when people pause their queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

PAUSES = '''
from rota.store.heed import until_heeded


@app.task(queue="tag")
def pause() -> None:
    """Pause its own queue as `rota pause` does, and end as soon as that is answered: its window is still in hand."""
    app.store.queues.pause("tag")
    note("paused")
    until_heeded(app.store, "tag is paused")
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
