"""`rota source`: progress, a look at what a source would add, and forgetting one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done, Snoozed
from rota.core.job import NewJob
from rota.core.source import Declared
from rota.settings import Settings
from rota.store.open import open_store
from rota.store.sources import Found
from tests.support.work import Crew

if TYPE_CHECKING:
    from tests.support.shell import Shell

SHOP = """
import sqlite3
import rota

app = rota.App()
connect = lambda: sqlite3.connect("files.db")

STORES = ["sqlite", "remote"]


@app.task(queue="tag")
def tag(path):
    pass


app.source(queue="tag", task=tag, name="files")(rota.SqlSource("SELECT id, path FROM file WHERE done = 0", connect))
app.source(queue="tag", task="elsewhere", name="nowhere")(rota.SqlSource("SELECT id FROM missing", connect))


@app.source(queue="tag", task="elsewhere")
def letters():
    yield from "ab"
    raise RuntimeError("the third letter is gone")
"""
SOURCE = (
    "name queue task every low batch repeats counts added_count success_count error_count last_success_at "
    "last_success_worker last_error_at last_error_message last_error_worker repeated_count last_repeated_key filler "
    "filler_status fill_count last_fill_at last_fill_error next_fill_at"
)


@pytest.fixture
def shop(shell: Shell) -> Shell:
    """A folder with an app and a table of files of its user's own."""
    (shell.folder / "shop.py").write_text(SHOP)
    with closing(sqlite3.connect(shell.folder / "files.db")) as connection:
        connection.execute("CREATE TABLE file (id INTEGER PRIMARY KEY, path TEXT, done INTEGER NOT NULL DEFAULT 0)")
        connection.execute("INSERT INTO file (path) VALUES ('a.wav'), ('b.wav'), ('c.wav')")
        connection.commit()
    return shell


def fill(shell: Shell, *keys: str) -> None:
    """Declare the source and let these keys become jobs; the first is done."""
    with open_store(str(shell.path), Settings()) as store:
        store.sources.declare([Declared("files", "tag", "tag", 30_000_000, 100, 1000, 3)])
        crew = Crew(store, queue="tag")
        (claim,) = crew.exchange().claims
        found = [Found(key, None) for key in keys]
        store.sources.fill("files", (claim.job_id, claim.token), found, NewJob("tag"), True)
        (first,) = crew.exchange([(claim.job_id, claim.token, Snoozed(30_000_000))]).claims
        crew.exchange([(first.job_id, first.token, Done())], room=0)


def test_list_shows_progress_in_text_and_in_the_promised_fields(shell: Shell) -> None:
    assert shell.say("source", "list").startswith("no sources; a worker whose app declares one")
    assert shell.ask("source", "list") == []
    fill(shell, "a", "b")
    (source,) = shell.ask("source", "list")
    assert " ".join(source) == SOURCE
    assert (source["name"], source["every"], source["added_count"], source["success_count"]) == ("files", 30, 2, 1)
    assert source["counts"]["ready"] == 1 and source["filler_status"] == "scheduled"
    assert source["last_success_at"].endswith("Z") and source["next_fill_at"].endswith("Z")
    head, line = shell.say("source", "list").splitlines()
    assert head.split()[:3] == ["SOURCE", "STATUS", "QUEUE"] and line.split()[:3] == ["files", "ok", "tag"]


def test_internal_jobs_are_listed_only_where_asked_for(shell: Shell) -> None:
    fill(shell, "a", "b")
    assert [job["title"] for job in shell.ask("list")] == ["tag b"]
    assert [job["kind"] for job in shell.ask("list", "--internal")] == ["tag", "rota:source:files"]
    (queue,) = shell.ask("queue", "list")
    assert queue["name"] == "tag" and sum(queue["counts"].values()) == 1
    assert "rota's own" in shell.refuse("claim", 1, code=6)
    assert "rota's own" in shell.say("why", 1)


@pytest.mark.postgres
def test_check_explains_the_query_and_shows_what_it_would_add_and_adds_nothing(shop: Shell) -> None:
    fill(shop, "9", "1")
    text = shop.say("source", "check", "files", "--app", "shop:app", "--limit", 2)
    assert "warning: every pass reads the whole of file" in text
    assert "CREATE INDEX file_done ON file (done)" in text
    assert "nothing was added" in text
    found = shop.ask("source", "check", "files", "--app", "shop:app")
    assert [(each["key"], each["verdict"]) for each in found["found"]] == [("1", "known"), ("2", "new"), ("3", "new")]
    assert found["found"][1]["payload"] == {"path": "b.wav"} and found["scans"] == ["file"]
    assert len(shop.ask("list", "--internal")) == 2


@pytest.mark.postgres
def test_check_works_before_any_worker_has_made_the_source_known(shop: Shell) -> None:
    found = shop.ask("source", "check", "files", "--app", "shop:app", "--limit", 1)
    assert [each["verdict"] for each in found["found"]] == ["new"]
    assert shop.ask("source", "list") == []


@pytest.mark.postgres
def test_check_of_a_function_shows_its_keys_and_warns_of_a_task_that_is_elsewhere(shop: Shell) -> None:
    text = shop.say("source", "check", "letters", "--app", "shop:app", "--limit", 2)
    assert "this app has no task elsewhere" in text and 'new      a    "a"' in text


@pytest.mark.postgres
def test_check_names_what_is_wrong(shop: Shell) -> None:
    words = ("source", "check")
    assert "no such table: missing" in shop.refuse(*words, "nowhere", "--app", "shop:app", code=1)
    assert "the third letter is gone" in shop.refuse(*words, "letters", "--app", "shop:app", code=1)
    known = shop.refuse(*words, "nope", "--app", "shop:app", code=3)
    assert "has no source nope; it has: files, letters, nowhere" in known
    assert "there is no module 'missing'" in shop.refuse(*words, "files", "--app", "missing:app", code=2)
    assert "does not name an app" in shop.refuse(*words, "files", "--app", "shop", code=2)


def test_forget_removes_a_source_and_what_waits(shell: Shell) -> None:
    fill(shell, "a", "b")
    assert shell.say("source", "forget", "files") == "source files is forgotten; 1 of its jobs waited and are gone"
    assert shell.ask("source", "list") == shell.ask("list", "--internal") == []
    assert "there is no source files" in shell.refuse("source", "forget", "files", code=3)


def test_done_by_hand_answers_though_the_job_is_gone_and_again_with_the_same_token(shell: Shell) -> None:
    fill(shell, "a", "b")
    worker = shell.register()
    (job,) = shell.ask("ready", "--claim", worker)
    token = job["claim"]["token"]
    assert shell.ask("done", job["id"], "--token", token)["status"] == "done"
    assert shell.ask("done", job["id"], "--token", token) == {"id": job["id"], "status": "done"}
    assert "there is no job" in shell.refuse("done", job["id"], "--token", token + 1, code=3)
    assert "there is no job" in shell.refuse("show", job["id"], code=3)
