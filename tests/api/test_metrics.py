"""Metrics: well formed, true, the same from every process, and kept when history is pruned."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rota.core.claim import Done, Snoozed
from rota.core.errors import Stale
from rota.core.job import NewJob
from rota.core.schedule import NewSchedule
from rota.core.slot import HTTP, History
from rota.core.source import Declared
from rota.core.times import MINUTE, SECOND
from rota.core.worker import Dead
from rota.process.host import host_id
from rota.store.sources import Found
from rota.store.workers.crews import Process
from rota.store.workers.slots import remember
from tests.api.servers import Server
from tests.docs.pages import ROOT
from tests.support.eventually import eventually
from tests.support.work import Crew, add, add_many, claim, fail, finish

if TYPE_CHECKING:
    from pathlib import Path

    from rota.store.store import Store

Samples = dict[tuple[str, ...], float]
ON_BOTH = ("test_they_tell_what_happened",)


def text(server: Server) -> str:
    answer = server.stranger().call("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return answer.text


def samples(server: Server) -> Samples:
    """Every sample by its name and the values of its labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text(server))
        for sample in family.samples
    }


def of_store(found: Samples) -> Samples:
    """Those that do not depend on the process that tells them, or on the moment."""
    passing = ("rota_http", "rota_event_lag", "rota_write_lock", "rota_oldest_ready_age")
    return {key: value for key, value in found.items() if not key[0].startswith(passing)}


def busy_day(store: Store) -> None:
    add_many(store, 5, queue="tag")
    finish(store, 1)
    finish(store, 2)
    fail(store, 3, again=False)
    store.claims.release(claim(store, 4))
    crew = Crew(store, 1, "tag")
    crew.exchange()
    store.orchestrators.mark_dead(crew.workers[0], Dead("signaled", "ended by signal 9"))


def test_promtool_finds_nothing_wrong(server: Server) -> None:
    with server.store() as store:
        busy_day(store)
    eventually(lambda: ("rota_worker_deaths_total", "signaled") in samples(server))
    told = subprocess.run(
        ["promtool", "check", "metrics"], input=text(server), capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")


def test_they_tell_what_happened(server: Server) -> None:
    with server.store() as store:
        busy_day(store)
        store.queues.pause("tag")
        add(store, queue="scan")
        store.slots.scale("main", "elsewhere", "tag", 3)
    eventually(lambda: ("rota_worker_deaths_total", "signaled") in samples(server))
    found = samples(server)
    expected = {
        ("rota_build_info", "0.1.0"): 1,
        ("rota_jobs", "tag", "done"): 2,
        ("rota_jobs", "tag", "failed"): 1,
        ("rota_jobs", "tag", "ready"): 2,
        ("rota_jobs", "scan", "ready"): 1,
        ("rota_claims_total",): 5,
        ("rota_runs_total", "tag", "finish"): 2,
        ("rota_runs_total", "tag", "fail"): 1,
        ("rota_runs_total", "tag", "release"): 1,
        ("rota_runs_total", "tag", "die"): 1,
        ("rota_run_seconds_count", "tag"): 3,
        ("rota_run_seconds_bucket", "+Inf", "tag"): 3,
        ("rota_pickup_seconds_count", "tag"): 4,
        ("rota_worker_deaths_total", "signaled"): 1,
        ("rota_queue_paused", "tag"): 1,
        ("rota_queue_paused", "scan"): 0,
        ("rota_slots", "tag", "empty"): 3,
        ("rota_orchestrators",): 1,
        ("rota_workers", "idle"): 1,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert found["rota_write_lock_wait_seconds",] < 60


def test_the_oldest_ready_job_is_as_old_as_its_wait_and_none_has_no_age(server: Server) -> None:
    with server.store() as store:
        before = store.now()
        job = add(store, queue="scan")
        after = store.now()
        eventually(lambda: store.now() > after + SECOND // 2)
        least = (store.now() - after) / SECOND
        age = samples(server)["rota_oldest_ready_age_seconds", "scan"]
        assert least <= age <= (store.now() - before) / SECOND
        claim(store, job)
        assert samples(server)["rota_oldest_ready_age_seconds", "scan"] == 0


def test_restarts_of_a_queues_slots_add_up_until_they_are_reset(server: Server) -> None:
    with server.store() as store:
        store.slots.take("main", host_id(), {"tag": 2, "scan": 1})
        with store.write() as tx:
            for name, times in (("worker:tag:0", 2), ("worker:tag:1", 3)):
                remember(tx, name, History((), times))
        found = samples(server)
        assert [found["rota_slot_restarts_total", queue] for queue in ("tag", "scan")] == [5, 0]
        store.slots.reset("worker:tag:0")
        assert samples(server)["rota_slot_restarts_total", "tag"] == 3


def test_a_lapse_is_a_run_that_expired_and_what_its_holder_says_then_a_stale_commit(server: Server) -> None:
    with server.store() as store:
        job = add(store, queue="tag")
        assert samples(server)["rota_stale_commits_refused_total",] == 0
        held = claim(store, job, lease=1000)
        eventually(lambda: store.reconcile().expired_claims_released)
        for outcome in (Done(), Snoozed(MINUTE)):
            with pytest.raises(Stale):
                store.claims.settle(held, outcome)
    found = samples(server)
    assert found["rota_runs_total", "tag", "expire"] == 1
    assert ("rota_runs_total", "tag", "finish") not in found
    assert found["rota_stale_commits_refused_total",] == 2


def test_the_lag_is_the_age_of_the_newest_event_when_it_was_read(tmp_path: Path) -> None:
    slow = "from rota.api.stream import hub; hub.Notifications.wait = lambda *_: hub.asyncio.sleep(0.5)"
    server = Server(tmp_path, change=slow)
    try:
        assert samples(server)["rota_event_lag_seconds",] == 0
        with server.client().events("queue:jobs") as events, server.store() as store:
            before = store.now()
            add(store, queue="tag")
            events.next(type="job_update")
            took = (store.now() - before) / SECOND
        assert 0 < samples(server)["rota_event_lag_seconds",] <= took
    finally:
        server.end()


def test_a_schedule_is_told_by_its_jobs_and_its_next_time(server: Server) -> None:
    with server.store() as store:
        going, full, paused = (store.schedules.add(NewSchedule(name, "0 4 * * *")) for name in ("a", "b", "c"))
        store.schedules.run("a")
        store.schedules.pause("c")
        with store.write() as tx:
            tx.execute("schedule.refused", name="b", error="nothing was added")
    found, name = samples(server), "rota_schedule_next_timestamp_seconds"
    assert going.next_at is not None and found[name, "a"] == going.next_at / 1e6
    assert (name, paused.name) not in found and (name, full.name) in found
    assert [found["rota_schedule_added_total", name] for name in "abc"] == [1, 0, 0]
    assert [found["rota_schedule_paused", name] for name in "abc"] == [0, 0, 1]
    assert [found["rota_schedule_refused", name] for name in "abc"] == [0, 1, 0]


def test_a_source_is_told_by_its_own_counters(server: Server) -> None:
    with server.store() as store:
        store.sources.declare([Declared("files", "tag", "tag", MINUTE, 1, 10, None)])
        crew = Crew(store, 1, "tag")
        (filler,) = crew.exchange().claims
        found = [Found(key, None) for key in "abc"]
        store.sources.fill("files", (filler.job_id, filler.token), found, NewJob("", queue="tag"), exhausted=True)
        crew.exchange([(filler.job_id, filler.token, Snoozed(MINUTE))], room=0)
        (first,) = crew.exchange(room=1).claims
        crew.exchange([(first.job_id, first.token, Done())], room=0)
    told = {key[0]: value for key, value in samples(server).items() if key[-2:] == ("files", "ready")}
    assert told == {"rota_source_jobs": 2}
    counted = {key[0]: value for key, value in samples(server).items() if key[-1] == "files"}
    assert counted == {
        "rota_source_added_total": 3,
        "rota_source_successes_total": 1,
        "rota_source_errors_total": 0,
        "rota_source_repeated_total": 0,
    }


def test_the_api_in_its_slot_is_no_worker(server: Server) -> None:
    with server.store() as store:
        store.slots.take("main", host_id(), {"tag": 1, HTTP: 1})
        orchestrator = store.orchestrators.join()
        for slot in store.slots.all():
            process = Process(store.new_worker_id(), 1, 1, slot.name)
            store.orchestrators.came_up(
                store.orchestrators.register_worker(orchestrator, slot.name, slot.queue, process), slot.name
            )
    found = samples(server)
    assert found["rota_workers", "idle"] == 1
    assert found["rota_slots", HTTP, "up"] == found["rota_slots", "tag", "up"] == 1


def test_every_process_tells_the_same_and_counts_nothing_twice(server: Server) -> None:
    with server.store() as store:
        busy_day(store)
        held = claim(store, 4)
        other = Server(server.shell.folder, log="other")
        try:
            eventually(lambda: ("rota_worker_deaths_total", "signaled") in samples(server))
            assert of_store(samples(server)) == of_store(samples(other)) == of_store(samples(server))
            before = samples(server)["rota_runs_total", "tag", "finish"]
            store.claims.settle(held, Done())
            for each in (other, server, other):
                assert samples(each)["rota_runs_total", "tag", "finish"] == before + 1, "one that was open counts once"
        finally:
            other.end()


def test_counts_survive_pruning_and_a_restart(server: Server) -> None:
    with server.store() as store:
        busy_day(store)
        eventually(lambda: ("rota_worker_deaths_total", "signaled") in samples(server))
        before = samples(server)
        store.history.prune(older=0, most=0)
    assert server.stop() == 0
    server.start()
    after = samples(server)
    counted = [
        key for key in before if key[0].endswith(("_total", "_count", "_bucket", "_sum")) and "http" not in key[0]
    ]
    assert {key: after.get(key) for key in counted} == {key: before[key] for key in counted}
    assert after["rota_jobs", "tag", "done"] == 0


def test_every_request_is_counted_under_its_route(server: Server) -> None:
    client = server.client()
    for id in (1, 2, 3):
        client.call("GET", f"/api/v1/jobs/{id}")
    assert samples(server)["rota_http_requests_total", "GET", "/api/v1/jobs/{id}", "404"] == 3


def test_the_alerts_and_the_dashboard_ask_for_metrics_that_there_are(server: Server) -> None:
    with server.store() as store:
        busy_day(store)
        store.schedules.add(NewSchedule("report", "0 4 * * *"))
    eventually(lambda: ("rota_worker_deaths_total", "signaled") in samples(server))
    names = {key[0] for key in samples(server)} | {"rota_slots", "rota_slot_restarts_total"}
    rules, board = ROOT / "deploy" / "alerts.yml", ROOT / "deploy" / "grafana.json"
    told = subprocess.run(["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    panels = json.loads(board.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    for expression in [*asked, rules.read_text()]:
        assert set(re.findall(r"rota_[a-z_]+", expression)) <= names, expression
