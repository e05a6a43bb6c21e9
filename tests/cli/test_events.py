"""`events`: the log of facts, and the live feed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.shell import Shell

STORES = ["sqlite", "remote"]


def test_where_nothing_happened_that_is_said(bare: Shell) -> None:
    bare.say("init")
    assert bare.say("events") == "nothing happened yet"
    assert bare.ask("events") == []


def test_events_are_one_line_per_fact(shell: Shell) -> None:
    id, worker = shell.add("A", "--queue", "tag"), shell.register()
    shell.say("claim", id, worker)
    head, *lines = shell.say("events").splitlines()
    assert head.split() == ["TIME", "ACTOR", "FACT"]
    facts = [line.split(maxsplit=2)[2] for line in lines[-4:]]
    assert facts[:2] == ["make queue tag", "add job 1 of queue tag: ready"]
    assert facts[2].startswith(f"register {worker} (name loop")
    assert facts[3].startswith("claim job 1 of queue tag: ready -> active")
    assert shell.say("events", "--limit", 1).splitlines()[1:] == [lines[-1]]


def test_events_as_documents_have_a_topic_a_type_and_their_noun(shell: Shell) -> None:
    shell.add("A", "--queue", "tag")
    worker = shell.register()
    shell.say("pause")
    made, added, registered, paused = shell.ask("events")[-4:]
    assert list(added) == ["id", "topic", "type", "timestamp", "at", "actor", "job"]
    assert (made["topic"], made["type"], made["queue"]["queue_type"]) == ("queue:tag:status", "queue_update", "tag")
    assert (added["topic"], added["type"], added["job"]["id"]) == ("queue:tag:jobs", "job_update", 1)
    assert (registered["topic"], registered["worker"]["id"]) == (f"worker:-:{worker}:status", worker)
    assert (paused["topic"], paused["queue"]["verb"]) == ("queue:status", "pause")
    assert added["at"].startswith("20") and abs(added["timestamp"] / 1000 - shell.path.stat().st_mtime) < 3600


def test_a_fact_of_many_jobs_is_a_document_for_each(shell: Shell) -> None:
    blocker = shell.add()
    for _ in range(3):
        shell.add("B", "--after", blocker)
    shell.say("done", blocker, "--force")
    freed = [
        event["job"]
        for event in shell.ask("events")
        if event["type"] == "job_update" and event["job"]["verb"] == "unblock"
    ]
    assert [(job["id"], job["was"], job["status"]) for job in freed] == [(n, "blocked", "ready") for n in (2, 3, 4)]
    assert "unblock jobs 2, 3, 4 of queue default: blocked -> ready" in shell.say("events")


def test_events_are_chosen_by_topic_and_read_on_from_a_cursor(shell: Shell) -> None:
    shell.add("A", "--queue", "tag"), shell.add("B", "--queue", "scan")
    shell.register()
    assert {event["topic"] for event in shell.ask("events", "--topic", "queue:tag:*")} == {
        "queue:tag:status",
        "queue:tag:jobs",
    }
    assert [event["topic"] for event in shell.ask("events", "--topic", "queue:jobs")] == ["queue:jobs"] * 2
    assert len(shell.ask("events", "--topic", "worker:*:status", "--topic", "queue:scan:jobs")) == 2
    everything = shell.ask("events")
    cursor = everything[0]["id"]
    assert shell.ask("events", "--after", cursor) == [event for event in everything if event["id"] != cursor]
    assert shell.ask("events", "--after", everything[-1]["id"]) == []
    assert "not an event cursor" in shell.refuse("events", "--after", "x", code=2)


def test_events_are_followed_one_document_per_line(shell: Shell) -> None:
    shell.add("Before")
    following = shell.start("events", "--follow", "--json", "--topic", "queue:jobs", "--after", "0")
    try:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["job"]["id"] == 1
        shell.add("While")
        assert json.loads(following.stdout.readline())["job"]["id"] == 2
        following.send_signal(2)
        _, error = following.communicate(timeout=60)
        assert (following.returncode, error) == (130, "")
    finally:
        following.kill()
