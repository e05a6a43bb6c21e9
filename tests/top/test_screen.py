"""`rota top` against a real store and a real crew: what it shows, and what its keys do."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rota.core.job import NewJob
from rota.top.widgets import Lines
from tests.support.crews import Crew
from tests.support.eventually import eventually, in_time
from tests.top.watch import SMALL, WIDE, Watch, watch

if TYPE_CHECKING:
    from rota.core.job import Job

pytestmark = pytest.mark.crew

EVIL = "\x1b[2J\x1b]0;evil\x07\x9b31m\r\x08 \u202e日本語"


def url(crew: Crew) -> str:
    return crew.app.store.database.url


def job(crew: Crew, id: int) -> Job:
    return crew.app.jobs.get(id)


def test_a_job_is_seen_to_wait_to_run_and_to_be_done_without_a_key(either_crew: Crew) -> None:
    crew = either_crew
    id = crew.app.enqueue(NewJob("Tag a.wav", queue="tag", kind="hold", payload={"name": "a"})).id

    async def scene(top: Watch) -> None:
        ready = await top.sees("tag", "open")
        assert ready.split()[:4] == ["▸tag", "1", "0", "0"]
        assert "no orchestrator is running" in top.lines[0]
        crew.start("tag=1")
        busy = await top.sees("worker:tag:0", "busy", "Tag a.wav", within=60)
        assert str(id) in busy.split()
        await top.sees("1 of 1 workers busy")
        await top.press("3")
        await top.sees("Jobs in hand")
        assert (await top.sees("▸", "Tag a.wav", "worker:tag:0")).split()[1] == str(id)
        crew.let_go("a")
        await top.sees("0 of 1 workers busy")
        await top.press("2")
        await top.sees("worker:tag:0", "idle")
        await in_time(lambda: top.line("tag", "open").split()[1:3] == ["0", "0"])
        await top.sees("done", "█")

    watch(url(crew), scene)
    assert job(crew, id).status == "done"


def test_keys_pause_and_resume_the_queue_of_the_chosen_line_and_the_log_says_who(either_crew: Crew) -> None:
    crew = either_crew
    crew.add("tag", n=1)
    crew.add("hold", name="a")
    crew.start("tag=1")

    async def scene(top: Watch) -> None:
        await top.sees("worker:tag:0", "busy", within=60)
        await top.press("2", "p")
        await top.sees("queue tag is paused")
        await top.sees("tag", "paused")
        assert not crew.app.queues.is_open("tag")
        crew.let_go("a")
        await top.sees("worker:tag:0", "paused")
        await top.press("r")
        await top.sees("queue tag is resumed")
        await top.sees("worker:tag:0", "idle")

    watch(url(crew), scene)
    assert crew.app.queues.is_open("tag")
    assert [fact["by"] for fact in crew.facts("queue", "pause")] == [crew.app.store.actor]


def test_a_queue_is_scaled_by_a_number_and_nonsense_is_refused_by_name(either_crew: Crew) -> None:
    crew = either_crew
    crew.start("tag=1")

    async def scene(top: Watch) -> None:
        await top.sees("worker:tag:0", "idle", within=60)
        await top.press("1", "s")
        await top.sees("scale tag of crew main on", "now 1, to:")
        await top.write("many")
        await top.sees("'many' is not a number of workers: write for example 4")
        assert len(crew.app.store.slots.all()) == 1
        await top.press("s")
        await top.write("3")
        await top.sees("queue tag is scaled to 3 in crew main")
        await top.sees("worker:tag:2", "idle", within=60)
        await top.press("s", "escape")
        await top.misses("to:")

    watch(url(crew), scene)
    assert crew.up(3)


def test_cancel_asks_once_and_only_yes_cancels(either_crew: Crew) -> None:
    crew = either_crew
    id = crew.add("hold", name="a")
    crew.start("tag=1")

    async def scene(top: Watch) -> None:
        await top.sees("worker:tag:0", "busy", within=60)
        await top.press("2", "c")
        await top.sees(f"cancel job {id}?", "y/n")
        await top.press("x")
        await top.misses("y/n")
        assert job(crew, id).status == "active"
        assert top.top.screen.query("#slots")
        await top.press("c", "y")
        await top.sees(f"job {id} is cancelled")
        await top.sees("worker:tag:0", "idle")

    watch(url(crew), scene)
    assert job(crew, id).status == "cancelled"


@pytest.mark.both_stores
def test_a_killed_worker_is_among_the_deaths_with_its_certificate_and_its_job_runs_again(either_crew: Crew) -> None:
    crew = either_crew
    id = crew.add("hold", name="a")
    crew.start("tag=2")

    async def scene(top: Watch) -> None:
        await top.sees("worker:tag:", "busy", within=60)
        first = await in_time(lambda: crew.held_by("a"))
        os.kill(first, signal.SIGKILL)
        await top.press("4")
        assert str(id) in (await top.sees("worker:tag:", "signaled")).split()
        await top.press("enter")
        await top.sees("Death of worker-")
        await top.sees("signal", "9")
        await top.sees("job", str(id))
        await top.press("enter")
        await top.sees(f"Job {id} is running")
        await top.sees("run-", "expired", "death")
        crew.let_go("a")
        await top.sees(f"Job {id} is done")
        await top.sees("run-", "try 2", "completed")
        await top.press("escape", "escape")
        await top.sees("4 Deaths")

    watch(url(crew), scene)


def test_a_slot_that_failed_needs_attention_until_a_key_resets_it(crew: Crew) -> None:
    crew.teach("if not (here / 'mended').exists():\n    raise RuntimeError('no model')")
    crew.env["ROTA_RESTART_LIMIT"] = "1"
    crew.start("tag=1")

    async def scene(top: Watch) -> None:
        await top.sees("slot", "worker:tag:0", "failed: it", within=60)
        await top.sees("✖ error")
        (crew.folder / "mended").touch()
        await top.press("a", "x")
        await top.sees("worker:tag:0 is reset")
        await top.misses("Needs attention")
        await top.sees("● healthy", within=60)
        await top.press("1")
        await top.sees("worker:tag:0", "idle", within=60)

    watch(url(crew), scene)


def test_a_job_is_opened_with_why_it_failed_and_tried_again(crew: Crew) -> None:
    id = crew.app.enqueue(crew.new("broken", n=7).replace(max_attempts=1)).id
    crew.start("tag=1")
    eventually(lambda: job(crew, id).status == "failed", within=60)

    async def scene(top: Watch) -> None:
        await top.press("v")
        await top.sees("Jobs failed")
        await top.sees(str(id), "failed", "ValueError")
        await top.press("enter")
        await top.sees(f"Job {id} has failed after 1 of 1 attempts: ValueError: 7")
        await top.sees('"n": 7')
        await top.press("t")
        await top.sees(f"job {id} is tried again")
        await in_time(lambda: job(crew, id).generation == 2)

    watch(url(crew), scene)


def test_the_output_of_a_command_is_followed_while_it_runs_and_cannot_steer_the_terminal(crew: Crew) -> None:
    script = f"printf 'one {EVIL}\\n'; echo wrong >&2; while [ ! -e go ]; do sleep 0.05; done; echo two"
    crew.app.enqueue(NewJob("Convert", queue="convert"))
    crew.begin("worker", "exec", "--queue", "convert", "--", "sh", "-c", f"cd {crew.folder}; {script}")

    async def scene(top: Watch) -> None:
        await top.sees("worker:convert:0", "busy", within=60)
        await top.press("2", "l")
        await top.sees("transcript of run-", "live")
        await top.sees("one �[2J�]0;evil��31m��")
        await top.press("e")
        await top.sees("stderr of run-")
        await top.sees("wrong")
        await top.press("e")
        await top.sees("one �")
        (crew.folder / "go").touch()
        await top.sees("two")
        await top.sees("transcript of run-", "over")
        assert not any(c in line for line in top.lines for c in "\x1b\x07\x9b\r\x08\u202e")

    watch(url(crew), scene)


def test_a_job_that_wrote_nothing_anywhere_says_so(crew: Crew) -> None:
    id = crew.add("tag", n=1)
    crew.start("tag=1")
    crew.done(id)

    async def scene(top: Watch) -> None:
        await top.press("v", "v")
        await top.sees(str(id), "done")
        await top.press("l")
        await top.sees("did not say where it writes")

    watch(url(crew), scene)


def test_a_filter_is_heard_letter_by_letter_over_all_panes_and_ends_with_escape(crew: Crew) -> None:
    for queue in ("tag", "library"):
        crew.app.enqueue(NewJob(f"{queue} it", queue=queue))

    async def scene(top: Watch) -> None:
        await top.sees("library", "open")
        await top.press("slash", "l", "i", "b")
        await top.misses("tag", "open")
        await top.press("enter")
        await top.sees("rota top", "filter: lib")
        assert top.line("library", "open")
        await top.press("escape")
        await top.sees("tag", "open")
        await top.press("1")
        await top.chooses("tag", "open")
        await top.press("enter")
        await top.sees("filter: tag")
        assert not top.line("library", "open")

    watch(url(crew), scene)


@pytest.mark.parametrize("size", [SMALL, WIDE, (80, 50), (40, 12), (300, 90)])
def test_every_size_shows_what_fits_and_no_line_is_longer(crew: Crew, size: tuple[int, int]) -> None:
    crew.app.enqueue_many([NewJob(f"{EVIL} {'long ' * 40}", queue="q" * 64, priority=n) for n in range(3)])
    crew.app.claims.claim(1)
    crew.app.store.slots.take("main", "elsewhere", {f"pool-{n}": 30 for n in range(3)})

    async def scene(top: Watch) -> None:
        await top.sees("1 Queues")
        panes = [await top.sees(pane) for pane in ("2 Slots",)]
        if size[0] >= 132 or size[1] >= 40:
            panes += [await top.sees(pane) for pane in ("3 Jobs", "4 Deaths")]
        assert len(top.lines) == size[1]
        assert all(len(line) <= size[0] for line in top.lines)
        assert "? help" in top.lines[-1]
        for key in ("3", "enter", "escape", "4", "question_mark", "escape", "tab", "shift+tab", "end", "pageup"):
            await top.press(key)
            assert len(top.lines) == size[1]
        assert not any(c in top.text for c in "\x1b\x07\x9b\r\x08\u202e")

    watch(url(crew), scene, size)


def test_where_one_line_fits_the_last_one_can_be_reached(crew: Crew) -> None:
    crew.app.claims.claim(crew.add("tag", n=1))

    async def scene(top: Watch) -> None:
        await top.press("3")
        await top.sees("▸")
        await top.press("enter")
        await top.sees("added")
        sheet = top.top.screen.query_one(Lines)
        others = len(top.lines) - sheet.size.height
        last = [line for line in top.lines if line][-2]
        await top.resize(SMALL[0], others + 1)
        await top.press("end")
        assert sheet.size.height == 1 and last in top.lines

    watch(url(crew), scene)


def test_it_grows_with_its_terminal(crew: Crew) -> None:
    crew.add("tag", n=1)

    async def scene(top: Watch) -> None:
        await top.sees("2 Slots")
        assert not top.line("3 Jobs")
        await top.resize(*WIDE)
        await top.sees("3 Jobs")
        await top.sees("4 Deaths")
        await top.resize(*SMALL)
        await top.misses("3 Jobs")

    watch(url(crew), scene)


def test_the_keys_are_shown_and_a_line_that_a_key_cannot_act_on_is_said(crew: Crew) -> None:
    crew.add("tag", n=1)

    async def scene(top: Watch) -> None:
        await top.press("question_mark")
        await top.sees("cancel its job; asks once")
        await top.press("q")
        await top.misses("asks once")
        await top.press("1", "c")
        await top.sees("there is no job on this line")
        await top.press("x")
        await top.sees("x resets a slot: choose one first")
        await top.press("s")
        await top.sees("no crew is running")
        await top.press("a")
        await top.sees("nothing needs attention")
        await top.press("tab")
        await top.sees("2 Slots")

    watch(url(crew), scene)
