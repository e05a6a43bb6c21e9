"""`rota schedule`: added, listed, paused, resumed, run and removed; on a database, and over HTTP from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.shell import Shell

STORES = ["sqlite", "remote"]
SCHEDULE = (
    "name cron timezone missed queue kind payload priority max_attempts timeout declared paused paused_at pause_reason "
    "next_at last_at fired_at fired_count last_job last_status error"
)
NIGHTLY = ["schedule", "add", "nightly", "--cron", "0 2 * * *"]


def test_a_schedule_is_added_changed_listed_and_shown(shell: Shell) -> None:
    more = ["--timezone", "Europe/Berlin", "--kind", "report", "--queue", "night", "--missed", "all"]
    made = shell.ask(*NIGHTLY, *more, "--payload", '{"all": true}')
    assert list(made) == SCHEDULE.split()
    assert made["payload"] == {"all": True} and made["timezone"] == "Europe/Berlin" and made["missed"] == "all"
    assert (made["declared"], made["paused"], made["fired_count"], made["last_job"]) == (False, False, 0, None)
    assert shell.ask("schedule", "list") == [made] and shell.ask("schedule", "show", "nightly") == made
    assert shell.ask(*NIGHTLY)["timezone"] == "UTC"
    told = shell.say("schedule", "list")
    assert "nightly" in told and "NEXT" in told and "T02:00:00" in told.replace(" ", "T")
    assert "cron" in shell.say("schedule", "show", "nightly")


def test_without_any_it_says_how_to_add_one(shell: Shell) -> None:
    assert "rota schedule add" in shell.say("schedule", "list") and shell.ask("schedule", "list") == []


def test_it_is_paused_resumed_run_and_removed(shell: Shell) -> None:
    shell.say(*NIGHTLY)
    paused = shell.ask("schedule", "pause", "nightly", "--reason", "moving")
    assert paused["paused"] and paused["pause_reason"] == "moving" and paused["next_at"] is None
    assert "moving" in shell.say("schedule", "list")
    resumed = shell.ask("schedule", "resume", "nightly")
    assert not resumed["paused"] and resumed["next_at"].endswith("T02:00:00.000000Z")
    job = shell.ask("schedule", "run", "nightly")
    assert (job["title"], job["status"], job["scheduled_for"]) == ("nightly", "ready", None)
    assert shell.ask("schedule", "show", "nightly")["last_job"] == job["id"]
    assert shell.ask("schedule", "remove", "nightly") == {"name": "nightly"}
    assert shell.ask("schedule", "list") == [] and shell.ask("list")[0]["id"] == job["id"]
    verbs = [each["schedule"]["verb"] for each in shell.ask("events", "--topic", "schedule:*")]
    assert verbs == ["make", "pause", "resume", "run", "remove"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["add", "x", "--cron", "often"], 2, "'often' is not a cron expression"),
        (["add", "x", "--cron", "0 0 0 2 * * *"], 2, "or six with seconds before them"),
        (["add", "x", "--cron", "* * * * *", "--timezone", "Mars"], 2, "'Mars' is not a time zone"),
        (["add", "x", "--cron", "* * * * *", "--missed", "never"], 2, "skip, once"),
        (["add", "a b", "--cron", "* * * * *"], 2, "not a name for a schedule"),
        (["add", "x"], 2, "--cron"),
        (["show", "x"], 3, "there is no schedule x; known: nightly"),
        (["pause", "x"], 3, "there is no schedule x"),
        (["resume", "x"], 3, "there is no schedule x"),
        (["run", "x"], 3, "there is no schedule x"),
        (["remove", "x"], 3, "there is no schedule x"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(shell: Shell, words: list[str], code: int, message: str) -> None:
    shell.say(*NIGHTLY)
    assert message in shell.refuse("schedule", *words, code=code)
    assert len(shell.ask("schedule", "list")) == 1
