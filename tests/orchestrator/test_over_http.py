"""Crews on hosts that reach only the API: they work, outlive the API, take over, and touch what is theirs alone."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest

from rota.core.job import NewJob
from rota.core.source import Declared
from rota.core.times import MINUTE
from tests.support.crews import kill
from tests.support.eventually import eventually
from tests.support.far import Far
from tests.support.shell import ROTA, call, environment
from tests.support.stores import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCE = """

@app.source(queue="tag", task=tag, name="numbers", every="200ms")
def numbers():
    yield from ()
"""
SLOW = """

@app.task(queue="tag", max_attempts=1000)
def slow(n: int) -> int:
    time.sleep(0.02)
    return n
"""


TICK = """
@app.task(queue="tag", cron="* * * * * *")
def tick(ctx):
    note(f"tick {ctx.job.scheduled_for}")
"""


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    far = Far(tmp_path)
    yield far
    far.end()


def test_two_hosts_share_the_work_and_leave_nothing(far: Far) -> None:
    one, two = far.start("one"), far.start("two")
    eventually(lambda: far.up(4), within=30)
    far.done(*(far.add("tag", n=n) for n in range(200)))
    both = one.ledger() + two.ledger()
    assert sorted(map(int, both)) == list(range(200)), "each ran once"
    held = far.add("hold", name="x")
    (holder,) = eventually(lambda: [host for host in (one, two) if host.held_by("x")])
    worker = far.app.workers.get(str(far.app.jobs.get(held).worker_id))
    assert worker.hostname == holder.name and worker.slot is not None
    for pid in (far.orchestrator(holder), *far.workers(holder)):
        with open(f"/proc/{pid}/maps") as maps:
            assert not [line for line in maps if "apsw" in line or "psycopg" in line], "it needs no driver"
    (holder.folder / "go-x").touch()
    far.done(held)
    assert far.stop(one) == 0 == far.stop(two)
    assert far.app.workers.list() == [] and far.app.store.orchestrators.live() == []
    assert not list(one.folder.rglob("*.orchestrator"))


def test_a_job_is_picked_up_at_once_though_nobody_polls(far: Far) -> None:
    far.start("one", ROTA_POLL_INTERVAL="1h")
    eventually(lambda: far.up(2), within=30)
    eventually(lambda: far.server.log.exists() and len(far.server.client().get("/api/v1/workers")) == 2)
    for n in range(3):
        far.app.jobs.wait([far.add("tag", n=n)], "done", 3_000_000)


def test_the_api_is_killed_and_comes_back_and_nothing_is_lost(far: Far) -> None:
    host = far.start("one")
    eventually(lambda: far.up(2), within=30)
    held = far.add("hold", name="x")
    eventually(lambda: host.held_by("x"))
    far.kill_api()
    rest = [far.add("tag", n=n) for n in range(20)]
    (host.folder / "go-x").touch()
    eventually(lambda: host.said("trying again until it answers"), within=30)
    far.server.start()
    far.done(held, *rest)
    assert eventually(lambda: host.said("the store answers again"))
    assert far.app.jobs.get(held).attempts == 1 and len(far.app.store.claims.runs(held)) == 1
    assert sorted(map(int, (line for line in host.ledger() if line.isdigit()))) == list(range(20))
    assert far.stop(host) == 0


def test_a_store_that_is_held_for_longer_than_an_answer_may_take_costs_nobody_his_worker(far: Far) -> None:
    """A program stops with the write lock in its hand: what waits for it is carried out when nobody waits for it."""
    host = far.start("one")
    eventually(lambda: far.up(2), within=30)
    held = far.add("hold", name="x")
    eventually(lambda: host.held_by("x"))
    workers = far.workers(host)
    with open(f"{far.server.shell.path}.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (host.folder / "go-x").touch()
        # An answer is waited for 5 s: by now another exchange, which asks how far the store is, waits behind the first.
        eventually(lambda: host.said("could not be renewed for 10s"))
    rest = [far.add("tag", n=n) for n in range(20)]
    far.done(held, *rest)
    assert far.app.jobs.get(held).attempts == 1 and len(far.app.store.claims.runs(held)) == 1
    assert far.workers(host) == workers, "nobody was ended"
    assert not host.said("the crew begins anew")
    assert far.stop(host) == 0


def test_a_killed_worker_is_seen_at_once_and_its_job_runs_again(far: Far) -> None:
    host = far.start("one")
    eventually(lambda: far.up(2), within=30)
    held = far.add("hold", name="x")
    eventually(lambda: host.held_by("x"))
    worker = str(far.app.jobs.get(held).worker_id)
    first = host.held_by("x")
    (victim,) = [pid for pid in far.workers(host) if inside(pid) == first]
    os.kill(victim, signal.SIGKILL)
    # Before any lease could expire (15 s): the death was seen, not inferred.
    eventually(lambda: host.held_by("x") not in (0, first), within=12)
    (host.folder / "go-x").touch()
    assert far.done(held)[0].attempts == 2
    certificate = far.app.workers.certificate(worker)
    assert certificate is not None and (certificate.reason, certificate.signal) == ("signaled", 9)
    assert eventually(lambda: far.up(2)), "its slot was filled again, after the backoff of this host's own settings"


def inside(pid: int) -> int:
    """A process's number in its own namespace."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[-1]) for line in file if line.startswith("NSpid:"))


def test_a_killed_orchestrator_leaves_an_orphan_that_finishes_and_the_next_takes_over(far: Far) -> None:
    host = far.host("one")
    words = ["orchestrator", "start", "--app", "shop:app", "--pool", "tag=2"]
    env = environment(**host.env)
    with (host.folder / "log").open("ab") as log:
        first = subprocess.Popen([ROTA, *words], cwd=host.folder, env=env, stderr=log)
        try:
            eventually(lambda: far.up(2), within=30)
            held = far.add("hold", name="x")
            pid = eventually(lambda: host.held_by("x"))
            first.kill()
            first.wait()
            eventually(lambda: not (far.app.workers.get(str(far.app.jobs.get(held).worker_id)).orchestrator), within=10)
            second = subprocess.Popen([ROTA, *words], cwd=host.folder, env=env, stderr=log)
            try:
                eventually(lambda: host.said(f"works on alone as process {pid}"), within=30)
                (host.folder / "go-x").touch()
                (job,) = far.done(held)
                assert (job.attempts, job.result) == (1, pid), "the orphan itself finished it"
                eventually(lambda: far.up(2), within=30)
                second.terminate()
                assert second.wait(60) == 0
            finally:
                second.kill()
                second.wait()
        finally:
            first.kill()
            first.wait()


def test_a_host_that_vanishes_is_given_up_and_its_job_runs_on_another(far: Far) -> None:
    one = far.start("one")
    eventually(lambda: far.up(2), within=30)
    held = far.add("hold", name="x")
    eventually(lambda: one.held_by("x"))
    two = far.start("two")
    eventually(lambda: far.up(4), within=30)
    far.vanish(one)
    eventually(lambda: two.held_by("x"), within=40)
    (two.folder / "go-x").touch()
    assert far.done(held)[0].attempts == 2


def test_a_revoked_token_ends_the_crew_with_a_word_and_its_jobs_go_on_elsewhere(far: Far) -> None:
    one = far.start("one", ROTA_SHUTDOWN_TIMEOUT="1s")
    eventually(lambda: far.up(2), within=30)
    held = far.add("hold", name="x")
    eventually(lambda: one.held_by("x"))
    two = far.start("two")
    eventually(lambda: far.up(4), within=30)
    (token,) = [token for token in far.app.store.tokens.list() if token.name == "one"]
    far.app.store.tokens.revoke(token.id)
    assert far.wait(one) == 1
    assert one.said("this needs an access token") and len(one.said("started, pid")) == 2, "no worker was started anew"
    eventually(lambda: two.held_by("x"), within=40)
    (two.folder / "go-x").touch()
    far.done(held)
    assert "access token" in far_refused(one.folder, one.env), "and it does not begin anew"


def far_refused(folder: Path, env: dict[str, str]) -> str:
    words, env = [ROTA, "worker", "exec", "--", "true"], environment(**env)
    told = subprocess.run(words, check=False, cwd=folder, env=env, capture_output=True, text=True, timeout=30)
    assert told.returncode == 1, told
    return told.stderr


@pytest.mark.timeout(240)
def test_two_hosts_through_a_storm_of_kills_commit_every_job_once(far: Far) -> None:
    """Workers are killed one by one, a whole host vanishes and comes back, and the API is killed; by a fixed seed."""
    random = Random(7)
    hosts = [far.host(name, SLOW) for name in ("one", "two")]
    for host in hosts:
        far.start(host.name)
    eventually(lambda: far.up(4), within=30)
    ids = [far.add("slow", n=n) for n in range(300)]
    steps = ["worker"] * 8 + ["api", "host", "api"]
    random.shuffle(steps)
    for step in steps:
        done = far.app.queues.counts()["tag"]["done"]
        host = random.choice(hosts)
        if step == "worker" and far.workers(host):
            kill(random.choice(far.workers(host)), signal.SIGKILL)
        elif step == "host":
            far.vanish(host)
            far.start(host.name)
            eventually(lambda: far.workers(host), within=30)  # noqa: B023 (an API away from the start ends it)
        elif step == "api":
            far.kill_api()
            far.server.start()
        eventually(lambda: far.app.queues.counts()["tag"]["done"] >= min(done + 10, len(ids)), within=60)  # noqa: B023
    far.done(*ids)
    for id in ids:
        verbs = [run.verb for run in far.app.store.claims.runs(id)]
        assert verbs.count("finish") == 1 and verbs[-1] == "finish", (id, verbs)
    for host in hosts:
        eventually(lambda: far.workers(host), within=20)  # noqa: B023
        assert far.stop(host) == 0, host.said("")[-5:]
    assert far.app.workers.list() == [] and far.app.queues.counts()["tag"]["active"] == 0


def test_commands_run_over_the_api_and_what_they_write_stays_on_their_host(far: Far) -> None:
    far.host("one").env.pop("ROTA_DB")
    host = far.start("one", "worker", "exec", "--queue", "tag", "--url", far.server.url, "--", "echo", "did", "{id}")
    id = far.app.enqueue(NewJob("convert", queue="tag")).id
    far.done(id)
    (run,) = far.app.store.claims.runs(id)
    (kept,) = host.folder.rglob(f"*.runs/{run.id}.out")
    assert kept.read_text() == f"did {id}\n"
    assert far.stop(host) == 0


def test_a_crew_over_http_is_told_that_it_has_no_sources_and_gets_none_to_fill(far: Far) -> None:
    store = far.app.store
    store.sources.declare([Declared("numbers", "tag", "tag", MINUTE, 1, 10, None)])
    host = far.host("one", SOURCE)
    far.start("one")
    assert eventually(lambda: host.said("cannot look for work in sources (numbers)"), within=30)
    far.done(far.add("tag", n=1))
    (filler,) = store.jobs.list(internal=True, limit=1, before=store.sources.get("numbers").filler + 1)
    assert (filler.status, filler.attempts) == ("ready", 0), "it waits for a worker that reaches the database"
    far.stop(host)


def test_people_steer_a_crew_over_http_from_where_the_database_is(far: Far) -> None:
    host = far.start("one")
    eventually(lambda: far.up(2), within=30)
    shell = far.server.shell
    shell.say("queue", "set", "tag", "--max-depth", "10")
    assert shell.say("pause", "tag") and shell.say("scale", "tag=3", "--host", "one")
    eventually(lambda: far.up(3), within=10)
    shell.say("resume", "tag")
    held = far.add("hold", name="x")
    eventually(lambda: host.held_by("x"))
    shell.say("cancel", held)
    eventually(lambda: far.up(3), within=10)
    far.done(far.add("tag", n=1))
    shell.say("drain", "--host", "one")
    assert far.wait(host) == 0


def test_an_application_runs_a_crew_over_http(far: Far) -> None:
    host = far.host("one")
    host.env["ROTA_TOKEN"] = far.server.token("app", "read", "enqueue", "work")
    code = """
import shop
with shop.app.crew(tag=1) as crew:
    job = shop.app.enqueue(shop.tag.job(n=5))
    print(shop.app.jobs.wait([job.id], "done", 60_000_000)[0].result, list(crew.states().values()))
"""
    words, env = [sys.executable, "-c", code], environment(**host.env)
    told = subprocess.run(words, check=False, cwd=host.folder, env=env, capture_output=True, text=True, timeout=110)
    assert told.stdout == "5 ['up']\n", told
    assert far.app.workers.list() == []


def test_an_api_that_is_not_there_is_no_outage_to_wait_through(tmp_path: Path) -> None:
    env = environment(XDG_RUNTIME_DIR=str(tmp_path))
    words = [ROTA, "worker", "exec", "--url", "http://127.0.0.1:1", "--", "true"]
    told = subprocess.run(words, check=False, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=30)
    assert told.returncode == 1 and "out of reach" in told.stderr and "Traceback" not in told.stderr
    words[4] = "postgresql://x"
    told = subprocess.run(words, check=False, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=30)
    assert told.returncode == 2 and "is not the address of an HTTP API" in told.stderr


def test_the_schedules_of_a_crew_over_http_are_declared_and_fired(far: Far) -> None:
    far.host("one", TICK)
    one = far.host("two", TICK, ROTA_TOKEN=far.server.token("two too", "work", "enqueue"))
    far.start("one")
    eventually(lambda: far.hosts["one"].said("may not declare schedule tick"))
    far.start("two")
    eventually(lambda: any(line.startswith("tick 2") for line in one.ledger()), within=30)
    assert far.app.store.schedules.get("tick").declared


def test_a_payload_that_nobody_can_read_fails_its_own_job_and_no_crew(far: Far) -> None:
    """Another program wrote it, behind the store's back."""
    host = far.host("one")
    texts = ["1e400", "[" * 500 + "]" * 500, r'"\ud800"', "NaN", "{oops"]
    ids = [far.add("tag", n=1) for _ in texts]
    for id, text in zip(ids, texts, strict=True):
        rows(far.app.store, "UPDATE job SET payload = :json WHERE id = :id", json=text, id=id)
    last = far.add("tag", n=7)
    far.start("one")
    far.done(last)
    eventually(lambda: all(far.app.jobs.get(id).status == "failed" for id in ids))
    assert all("the payload cannot be read" in str(far.app.jobs.get(id).error) for id in ids)
    assert all(far.app.jobs.get(id).attempts == 1 for id in ids), "no further attempt would help"
    assert host.process is not None and host.process.poll() is None and len(host.said("started, pid")) == 2


def test_a_second_orchestrator_is_refused_under_another_spelling_of_the_api(far: Far) -> None:
    host = far.host("one")
    start = ["orchestrator", "start", "--app", "shop:app", "--pool", "tag=1", "--daemon", "--json"]
    pid = json.loads(call(start, host.folder, host.env).stdout)["pid"]
    try:
        spelt = {**host.env, "ROTA_DB": far.server.url.replace("127.0.0.1", "localhost")}
        refused = call(start, host.folder, spelt)
        assert (refused.returncode, f"is running already, pid {pid}" in refused.stderr) == (4, True), refused
    finally:
        stopped = call(["orchestrator", "stop"], host.folder, host.env)
    assert stopped.returncode == 0
