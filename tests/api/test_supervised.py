"""The API as a child of the orchestrator, in a slot of its own: kept alive like a worker, and no danger to the crew."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

import httpx
import pytest

from rota.core.job import NewJob
from tests.support.crews import Crew, is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.workers.slots import Slot

pytestmark = pytest.mark.crew

API = "http:0"


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path, ROTA_RESTART_BACKOFF="50ms", ROTA_HTTP_PORT="0")
    yield crew
    crew.end()


def slot(crew: Crew) -> Slot:
    """The API's slot, which the orchestrator makes when it starts."""
    found = eventually(lambda: [each for each in crew.app.store.slots.all() if each.name == API])
    return found[0]


def address(crew: Crew) -> str:
    return (crew.folder / ".rota" / "rota.db.http").read_text().strip()


def answers(crew: Crew) -> bool:
    try:
        return httpx.get(f"{address(crew)}/readyz", timeout=10).status_code == 200
    except (httpx.TransportError, FileNotFoundError):
        return False


def pid(crew: Crew) -> int:
    """The process that answers, once it does."""
    eventually(lambda: slot(crew).status == "up" and answers(crew))
    found = crew.app.workers.get(slot(crew).worker or "").pid
    assert found is not None
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_the_orchestrator_runs_the_api_and_takes_it_along_when_it_stops(crew: Crew) -> None:
    crew.start("tag=1", http=True)
    api = pid(crew)
    told = httpx.get(f"{address(crew)}/api/v1/info").json()
    assert {each["name"]: each["queue"] for each in told["slots"]} == {API: None, "worker:tag:0": "tag"}
    assert "answers requests" in crew.call("why", API)
    assert not crew.said("/open?code="), "a log is no place for a way in"
    assert crew.stop() == 0
    assert not is_alive(api) and slot(crew).status == "empty"
    assert not (crew.folder / ".rota" / "rota.db.http").exists()


def test_without_http_there_is_no_such_slot(crew: Crew) -> None:
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    assert [each.name for each in crew.app.store.slots.all()] == ["worker:tag:0"]


def test_a_killed_api_is_started_again_and_the_crew_does_not_notice(crew: Crew) -> None:
    crew.start("tag=1", http=True)
    first = pid(crew)
    id = crew.add("hold", name="a")
    worker = eventually(lambda: crew.held_by("a"))
    os.kill(first, signal.SIGKILL)
    eventually(lambda: slot(crew).history.lifetime == 1)
    assert pid(crew) != first
    crew.let_go("a")
    (job,) = crew.done(id)
    assert job.result == worker and job.attempts == 1, "the same worker finished it, in one go"
    (death,) = crew.deaths()
    assert (death.reason, death.signal) == ("signaled", 9)


def test_an_api_that_stands_still_is_replaced(crew: Crew) -> None:
    crew.env |= {"ROTA_FRAME_INTERVAL": "50ms", "ROTA_SILENT_INTERVAL": "200ms"}
    crew.start("tag=1", http=True)
    first = pid(crew)
    os.kill(first, signal.SIGSTOP)
    eventually(lambda: not is_alive(first))
    assert pid(crew) != first
    assert [death.reason for death in crew.deaths()] == ["heartbeat_timeout"]


def test_an_api_that_cannot_listen_is_given_up_while_the_crew_works_and_comes_back_by_reset(crew: Crew) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        crew.env |= {"ROTA_HTTP_PORT": str(taken.getsockname()[1]), "ROTA_RESTART_LIMIT": "1"}
        crew.start("tag=1", http=True)
        eventually(lambda: slot(crew).status == "failed")
        assert crew.said("cannot listen on 127.0.0.1")
        (job,) = crew.done(crew.add("tag", n=1))
        assert job.attempts == 1
    crew.call("reset", API)
    assert pid(crew)


def test_a_killed_orchestrators_api_ends_by_itself_and_the_next_one_has_its_port(crew: Crew) -> None:
    crew.env |= {"ROTA_HTTP_PORT": str(free_port())}
    crew.start("tag=1", http=True)
    first = pid(crew)
    os.kill(crew.pid, signal.SIGKILL)
    crew.wait()
    eventually(lambda: not is_alive(first))
    crew.start("tag=1", http=True)
    assert pid(crew) != first and slot(crew).history.lifetime == 0, "nobody is charged for it"


def test_the_next_orchestrator_waits_for_an_api_that_is_still_leaving(crew: Crew) -> None:
    crew.env |= {"ROTA_HTTP_PORT": str(free_port())}
    crew.start("tag=1", http=True)
    first = pid(crew)
    os.kill(first, signal.SIGSTOP)
    os.kill(crew.pid, signal.SIGKILL)
    crew.wait()
    crew.start("tag=1", http=True)
    eventually(lambda: crew.said("works on alone"))
    os.kill(first, signal.SIGCONT)
    eventually(lambda: not is_alive(first))
    assert pid(crew) != first and slot(crew).history.lifetime == 0


def test_the_api_is_started_again_while_everything_is_paused(crew: Crew) -> None:
    crew.start("tag=1", http=True)
    first = pid(crew)
    crew.call("pause")
    os.kill(first, signal.SIGKILL)
    eventually(lambda: slot(crew).history.lifetime == 1)
    assert pid(crew) != first


def test_an_api_that_is_asked_to_leave_is_replaced_and_charged_nothing(crew: Crew) -> None:
    crew.start("tag=1", http=True)
    first = pid(crew)
    os.kill(first, signal.SIGTERM)
    eventually(lambda: not is_alive(first))
    assert pid(crew) != first and slot(crew).history.lifetime == 0


def test_an_api_that_is_up_does_not_hide_that_no_worker_is(crew: Crew) -> None:
    (crew.folder / "shop.py").write_text("import time; time.sleep(3); raise SystemExit('no such model')\n")
    told = crew.call("orchestrator", "start", "--app", "shop:app", "--pool", "tag=1", "--daemon", code=1)
    assert "no worker came up" in told and "no such model" in told


def insist(client: httpx.Client, path: str, **body: object) -> httpx.Response:
    """The answer to a request that is sent again until there is one, as a worker elsewhere would."""

    answers: list[httpx.Response] = []

    def ask() -> bool:
        try:
            answers.append(client.post(path, json=body))
        except httpx.TransportError:
            return False
        return True

    eventually(ask)
    return answers[0]


def test_an_api_killed_again_and_again_loses_nothing_of_a_worker_elsewhere_and_doubles_nothing(crew: Crew) -> None:
    crew.env |= {"ROTA_HTTP_PORT": str(free_port())}
    crew.start("tag=1", http=True)
    api = pid(crew)
    secret = (crew.folder / ".rota" / "rota.db.token").read_text().strip()
    ids = crew.app.jobs.add_many([NewJob(str(n), queue="far") for n in range(60)])
    with httpx.Client(base_url=f"{address(crew)}/api/v1", headers={"Authorization": f"Bearer {secret}"}) as client:
        worker = insist(client, "/workers", name="far").json()["id"]
        settled, kills = 0, iter((10, 30, 50, len(ids)))
        kill_at = next(kills)
        while crew.app.queues.counts()["far"]["done"] < len(ids):
            for job in insist(client, "/claims", worker_id=worker, queue="far", lease=3, wait=1).json():
                token = job["claim"]["token"]
                if settled == kill_at:
                    os.kill(api, signal.SIGKILL)
                    kill_at = next(kills)
                answer = insist(client, f"/jobs/{job['id']}/claim/settle", token=token, outcome="done", result=token)
                assert answer.status_code in (200, 412), answer.text
                settled += answer.status_code == 200
                api = pid(crew)
    for id in ids:
        finished = [run for run in crew.app.claims.runs(id) if run.verb == "finish"]
        assert [run.token for run in finished] == [crew.app.jobs.get(id).result], "one commit, by its holder"
    assert slot(crew).history.lifetime == 3


def test_a_reader_of_events_delays_no_stop(crew: Crew) -> None:
    crew.start("tag=1", http=True)
    assert pid(crew)
    secret = (crew.folder / ".rota" / "rota.db.token").read_text().strip()
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx.stream("GET", f"{address(crew)}/api/v1/events", headers=headers, timeout=60) as stream:
        lines = stream.iter_lines()
        assert next(lines)
        assert crew.stop() == 0
