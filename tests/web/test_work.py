"""Work seen and done through the dashboard: a real crew, a real browser, and no page is ever loaded twice."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from rota.core.event import to_stored
from rota.core.job import NewJob
from rota.core.source import Declared
from rota.core.times import SECOND
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.api.servers import Server
    from tests.support.crews import Crew
    from tests.web.conftest import Look
    from tests.web.screens import Screen


def hold(crew: Crew, name: str) -> int:
    """A job that runs until it is let go."""
    return crew.app.store.jobs.add(NewJob(f"hold {name}", "tag", "hold", {"name": name})).id


def let_go(crew: Crew, name: str) -> None:
    (crew.folder / f"go-{name}").touch()


def mark(screen: Screen) -> None:
    """Something that a page loaded anew would not have."""
    screen.page.evaluate("window.mark = true")


def who_did(crew: Crew, noun: str, verb: str, which: object) -> list[str]:
    """The actors of each such fact in the event log."""
    return [
        event.actor
        for event in crew.app.store.events.after("0", 1_000_000)
        for fact in map(to_stored, event.facts)
        if fact[:2] == (noun, verb) and which in (fact[5] if noun == "job" else fact[2:3])
    ]


def test_a_job_goes_from_ready_to_done_before_ones_eyes(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    screen = look()
    crew.call("queue", "set", "tag", "--max-depth", "100")
    crew.call("pause", "tag")
    job = hold(crew, "a")
    screen.go(f"jobs/{job}")
    mark(screen)
    expect(screen.fact("State")).to_have_text("ready")
    screen.sees(f"Job {job} is ready, but queue tag is paused by")
    crew.call("resume", "tag")
    expect(screen.fact("State")).to_have_text("active")
    expect(screen.panel("Runs").get_by_text("runs now")).to_be_visible()
    let_go(crew, "a")
    expect(screen.fact("State")).to_have_text("done")
    expect(screen.panel("Runs").get_by_text("completed")).to_be_visible()
    assert screen.page.evaluate("window.mark") is True


def test_the_overview_tells_what_waits_runs_and_is_done(crew: Crew, look: Look) -> None:
    crew.start("tag=2", http=True)
    screen = look()
    mark(screen)
    screen.heading("Overview")
    jobs = [hold(crew, name) for name in ("a", "b", "c")]
    row = screen.panel("Queues").get_by_role("row", name=re.compile("^tag"))
    expect(row.get_by_role("cell").nth(2)).to_have_text("1")
    expect(row.get_by_role("cell").nth(3)).to_have_text("2")
    crew_panel = screen.panel("Crew")
    expect(crew_panel.get_by_role("link", name=re.compile("hold a"))).to_be_visible()
    for name in ("a", "b", "c"):
        let_go(crew, name)
    expect(row.get_by_role("cell").nth(3)).to_have_text("0")
    expect(crew_panel.get_by_role("link", name=re.compile("idle"))).to_have_count(2)
    assert {crew.app.jobs.get(job).status for job in jobs} == {"done"}
    assert screen.page.evaluate("window.mark") is True
    screen.sees("Nothing needs attention.")


def test_a_queue_is_paused_and_scaled_and_the_log_says_by_whom(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    screen = look()
    hold(crew, "a")
    screen.go("queues")
    card = screen.panel("tag")
    screen.press("Pause", card)
    screen.confirm("Pause", Why="the disk is full")
    expect(card.get_by_text("Paused by local@http")).to_be_visible()
    expect(card.get_by_text("the disk is full")).to_be_visible()
    queue = crew.app.store.queues.get("tag")
    assert (queue.paused_by, queue.pause_reason) == ("local@http", "the disk is full")
    screen.press("Scale", card)
    screen.confirm("Scale", Workers="3")
    expect(card.get_by_text("3 of 3 up")).to_be_visible()
    assert sum(slot.wanted for slot in crew.app.store.slots.all() if slot.queue == "tag") == 3
    screen.press("Resume", card)
    expect(card.get_by_text("Paused by")).to_have_count(0)
    screen.press("Limits", card)
    screen.confirm("Set limits", **{"Failures in a row that pause it": "7"})
    expect(card.get_by_text("0 of 7 failures in a row")).to_be_visible()
    screen.go("events?topic=queue%3Astatus")
    row = screen.page.get_by_role("row", name=re.compile("queue pause tag local@http"))
    expect(row).to_be_visible()
    let_go(crew, "a")


def test_a_killed_worker_leaves_a_certificate_and_its_job_runs_again(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    screen = look()
    job = hold(crew, "a")
    screen.go(f"jobs/{job}")
    expect(screen.fact("State")).to_have_text("active")
    worker = crew.app.jobs.get(job).worker_id or ""
    os.kill(crew.app.workers.get(worker).pid or 0, signal.SIGKILL)
    runs = screen.panel("Runs").get_by_role("row")
    expect(runs).to_have_count(3)
    expect(runs.nth(2)).to_contain_text(worker)
    expect(runs.nth(2)).to_contain_text("signal 9")
    expect(runs.nth(1)).not_to_contain_text(worker)
    screen.go("workers/worker%3Atag%3A0")
    certificate = screen.page.get_by_role("article", name=f"Death certificate of {worker}")
    expect(certificate).to_contain_text("ended by signal 9")
    expect(certificate).to_contain_text(f"#{job}")
    expect(screen.fact("Restarts of late")).to_have_text("1 of 5 within 5 min")
    screen.go("overview")
    expect(screen.panel("Recent deaths").get_by_role("link", name="worker:tag:0")).to_be_visible()
    let_go(crew, "a")
    screen.go(f"jobs/{job}")
    expect(screen.fact("State")).to_have_text("done")


def test_what_destroys_asks_once_and_can_be_left(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    screen = look()
    job = hold(crew, "a")
    screen.go(f"jobs/{job}")
    expect(screen.fact("State")).to_have_text("active")
    screen.press("Cancel")
    screen.confirm("Leave it")
    assert crew.app.jobs.get(job).status == "active"
    screen.press("Cancel")
    screen.confirm("Cancel")
    expect(screen.fact("State")).to_have_text("cancelled")
    let_go(crew, "a")
    screen.press("Retry")
    expect(screen.fact("State")).to_have_text("done")
    held = crew.app.store.jobs.add(NewJob("by hand", "other")).id
    crew.app.store.claims.claim(held)
    screen.go(f"jobs/{held}")
    screen.press("Release")
    screen.confirm("Release", **{"A word for the next holder": "half of it is there"})
    expect(screen.fact("State")).to_have_text("ready")
    expect(screen.panel("Note")).to_contain_text("half of it is there")
    screen.press("Settle as done")
    screen.confirm("Settle as done", Why="done on paper")
    expect(screen.panel("Result")).to_contain_text("done on paper")
    for verb, which in (("cancel", job), ("retry", job), ("release", held), ("force", held)):
        assert who_did(crew, "job", verb, which) == ["local@http"], verb


def test_a_job_is_settled_as_failed_for_good(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    job = crew.app.store.jobs.add(NewJob("by hand", "other", max_attempts=5)).id
    screen = look()
    screen.go(f"jobs/{job}")
    screen.press("Settle as failed")
    screen.confirm("Settle as failed", Why="the customer is gone")
    expect(screen.fact("State")).to_have_text("failed")
    expect(screen.panel("Error")).to_contain_text("the customer is gone")
    assert crew.app.jobs.get(job).status == "failed"
    assert who_did(crew, "job", "force", job) == ["local@http"]


def test_a_worker_is_stopped_and_its_slot_filled_again(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    screen = look()
    screen.go("workers/worker%3Atag%3A0")
    expect(screen.fact("Slot")).to_have_text("up")
    before = screen.fact("Worker").inner_text()
    screen.press("Stop worker")
    expect(screen.page.get_by_role("dialog")).to_contain_text(f"Stop {before}?")
    screen.confirm("Stop worker")
    expect(screen.fact("Worker")).not_to_have_text(before)
    expect(screen.fact("Slot")).to_have_text("up")
    assert crew.app.workers.get(before).status == "stopped"
    expect(screen.fact("Restarts of late")).to_have_text("0 of 5 within 5 min")


def test_a_slot_that_was_given_up_is_reset_and_filled_again(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    screen = look()
    screen.go("workers/worker%3Atag%3A0")
    expect(screen.fact("Slot")).to_have_text("up")
    crew.app.store.jobs.add_many([NewJob("poison", "tag", "die", max_attempts=1) for _ in range(6)])
    restarts = screen.panel("Restarts")
    expect(restarts.get_by_text("failed")).to_be_visible()
    expect(screen.fact("Restarts of late")).to_have_text("5 of 5 within 5 min")
    screen.press("Reset")
    screen.confirm("Reset")
    expect(restarts.get_by_text("up", exact=True)).to_be_visible()
    expect(screen.fact("Restarts of late")).to_have_text("0 of 5 within 5 min")
    assert who_did(crew, "slot", "reset", "worker:tag:0") == ["local@http"]


def test_a_crew_is_drained_and_ends_when_it_has_finished(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    screen = look()
    job = hold(crew, "a")
    eventually(lambda: crew.held_by("a"))
    screen.go("hosts")
    screen.press("Drain")
    screen.confirm("Drain")
    screen.sees("The server does not answer.")
    assert crew.app.jobs.get(job).status == "active"
    let_go(crew, "a")
    assert crew.wait() == 0
    assert crew.app.jobs.get(job).status == "done"


def test_a_source_is_forgotten(server: Server, view: Look) -> None:
    with server.store() as store:
        store.sources.declare([Declared("files", "tag", "tag", SECOND, 1, 1, None)])
        screen = view()
        screen.go("sources")
        screen.press("Forget", screen.panel("files"))
        screen.confirm("Leave it")
        assert len(store.sources.all()) == 1
        screen.press("Forget", screen.panel("files"))
        screen.confirm("Forget")
        screen.sees("No sources.")
        assert store.sources.all() == []


def test_a_job_that_kills_workers_needs_attention(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    screen = look()
    job = crew.app.store.jobs.add(NewJob("poison", "tag", "die", max_attempts=9)).id
    for n in range(2):
        crew.app.store.jobs.add(NewJob("broken", "tag", "broken", {"n": n}, max_attempts=1))
    expect(screen.panel("Needs attention")).to_contain_text("2 jobs failed: ValueError")
    expect(screen.page.locator(".tile").filter(has_text="failed")).to_contain_text("3")
    notice = screen.panel("Needs attention").get_by_role("listitem").filter(has_text="quarantined")
    expect(notice).to_contain_text(f"job #{job}")
    notice.get_by_role("link").click()
    screen.heading("poison")
    screen.sees("quarantined: cost 3 workers")


def test_output_is_read_on_while_it_is_written(crew: Crew, look: Look) -> None:
    wait = 'echo "first <b>"; while [ ! -e "go-$1" ]; do sleep 0.05; done; echo last'
    crew.teach(
        f"""@app.command(queue="tag", argv=["sh", "-c", {wait!r}, "sh", "{{payload.name}}"])
def loud(name: str) -> None: ...
"""
    )
    crew.start("tag=1", http=True)
    screen = look()
    job = crew.app.store.jobs.add(NewJob("loud", "tag", "loud", {"name": "a"})).id
    screen.go(f"jobs/{job}")
    output = screen.page.get_by_label("Output", exact=True).last
    expect(output).to_contain_text("first <b>")
    let_go(crew, "a")
    expect(output).to_contain_text("last")


def test_dependencies_are_drawn(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    screen = look()
    first = hold(crew, "a")
    later = crew.app.store.jobs.add(NewJob("later", "tag", "tag", {"n": 1}, after=[first])).id
    last = crew.app.store.jobs.add(NewJob("last", "tag", "tag", {"n": 2}, after=[later])).id
    screen.go(f"jobs/{later}")
    graph = screen.panel("Dependencies")
    expect(graph.get_by_role("link")).to_have_count(3)
    boxes = {id: graph.get_by_role("link", name=f"#{id} ").bounding_box() for id in (first, later, last)}
    places = [(boxes[id] or {"x": -1})["x"] for id in (first, later, last)]
    assert places == sorted(places) and len(set(places)) == 3
    let_go(crew, "a")
    expect(graph.get_by_text("done")).to_have_count(3)
    eventually(lambda: crew.app.jobs.get(last).status == "done")


def test_a_schedule_is_seen_run_paused_resumed_and_removed(crew: Crew, look: Look) -> None:
    crew.start("tag=1", http=True)
    screen = look()
    screen.go("schedules")
    mark(screen)
    screen.sees("No schedules.")
    crew.call(
        "schedule", "add", "nightly", "--cron", "0 2 * * *", "--queue", "tag", "--kind", "tag", "--payload", '{"n": 7}'
    )
    row = screen.panel("Schedules").get_by_role("row", name=re.compile("^nightly"))
    expect(row.get_by_role("cell").nth(1)).to_have_text("open")
    expect(row.get_by_role("cell").nth(6)).to_have_text("–")
    row.get_by_role("button", name="Run").click()
    expect(row.get_by_role("cell").nth(6).get_by_role("link")).to_be_visible()
    expect(row.get_by_role("cell").nth(7)).to_have_text("done")
    row.get_by_role("button", name="Pause").click()
    expect(row.get_by_role("cell").nth(1)).to_have_text("paused")
    row.get_by_role("button", name="Resume").click()
    expect(row.get_by_role("cell").nth(1)).to_have_text("open")
    row.get_by_role("button", name="Remove").click()
    screen.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    screen.sees("No schedules.")
    assert crew.app.store.schedules.list() == [] and crew.ledger() == ["7"]
    assert screen.page.evaluate("window.mark") is True
