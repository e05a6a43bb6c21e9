"""Queues: limits, pause and resume, in text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.shell import Shell

STORES = ["sqlite", "remote"]


def test_list_shows_counts_and_limits(shell: Shell) -> None:
    assert shell.say("queue", "list").startswith("no queues; one comes to be with its first job")
    assert shell.ask("queue", "list") == []
    shell.add("A", "--queue", "tag"), shell.add("B", "--queue", "tag", "--after", 1)
    shell.say("queue", "set", "tag", "--rate", "10/m")
    head, line = shell.say("queue", "list").splitlines()
    assert head.split()[:5] == ["QUEUE", "STATUS", "READY", "ACTIVE", "BLOCKED"]
    assert line.split()[:5] == ["tag", "open", "1", "0", "1"] and line.endswith("rate=10/m")
    (queue,) = shell.ask("queue", "list")
    assert queue["counts"]["ready"] == 1 and queue["rate"] == "10/m" and queue["paused"] is False


def test_set_writes_limits_and_none_removes_one(shell: Shell) -> None:
    words = [
        "--max-depth",
        "9",
        "--rate",
        "5/s",
        "--concurrency",
        "2",
        "--per-key",
        "1",
        "--breaker",
        "3",
        "--fence",
        "end",
    ]
    text = shell.say("queue", "set", "tag", *words)
    assert text == "queue tag: max-depth=9 rate=5/s concurrency=2 per-key=1 breaker=3 fence=end"
    queue = shell.ask("queue", "set", "tag", "--max-depth", "none", "--rate", "none", "--fence", "none")
    kept = {name: queue[name] for name in ("max_depth", "rate", "concurrency", "per_key", "breaker", "fence")}
    assert kept == {"max_depth": None, "rate": None, "concurrency": 2, "per_key": 1, "breaker": 3, "fence": None}


def test_pause_and_resume_persist_and_name_who(shell: Shell) -> None:
    shell.add("A", "--queue", "tag"), shell.add("B")
    assert shell.say("pause", "tag", "--reason", "new model") == "queue tag paused"
    assert shell.say("pause", "tag") == "nothing to do: tag was paused already"
    assert [job["title"] for job in shell.ask("ready")] == ["B"]
    assert "(new model)" in shell.say("queue", "list")
    assert "paused by" in shell.say("why", 1)
    assert shell.ask("pause") == {"paused": ["*"]}
    assert shell.ask("ready") == []
    assert shell.say("resume") == "everything, queue tag resumed"
    assert shell.ask("resume", "tag") == {"resumed": []}
    assert len(shell.ask("ready")) == 2


def test_pausing_a_queue_that_is_not_there_is_refused(shell: Shell) -> None:
    assert "there is no queue tag" in shell.refuse("pause", "tag", code=3)
    assert "there is no queue tag" in shell.refuse("resume", "tag", code=3)


def test_a_queue_at_its_limit_offers_nothing(shell: Shell) -> None:
    shell.add("A"), shell.add("B")
    shell.say("queue", "set", "default", "--concurrency", 1)
    shell.say("claim", 1)
    assert "at its 1 at once" in shell.refuse("claim", 2, code=6)
    assert shell.ask("ready") == []


def test_a_breaker_pauses_its_queue(shell: Shell) -> None:
    shell.add("A", "--max-attempts", 1)
    shell.say("queue", "set", "default", "--breaker", 1)
    shell.say("claim", 1)
    shell.say("fail", 1, "--error", "boom")
    (queue,) = shell.ask("queue", "list")
    assert (queue["paused"], queue["paused_by"]) == (True, "breaker") and "boom" in queue["pause_reason"]
