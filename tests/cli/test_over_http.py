"""Every command works where only an API is reached, or says that it needs the database."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from rota.cli.verbs import all_verbs
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.shell import Shell

STORES = ["remote"]
APP = """
import rota

app = rota.App()


@app.task(queue="tag")
def tag(n: int) -> int:
    return n


@app.source(queue="tag", task=tag, every="1h")
def numbers():
    yield 1, {"n": 1}
"""
# In an order in which one prepares the next. 3 and 6 are the answers of the store: nothing there, nobody running.
CALLS = [
    ("add A --queue tag", 0),
    ("ready --queue tag", 0),
    ("show 1", 0),
    ("runs 1", 0),
    ("logs 1", 3),
    ("list", 0),
    ("why 1", 0),
    ("worker register --name w", 0),
    ("worker heartbeat {worker}", 0),
    ("worker list", 0),
    ("worker status {worker}", 0),
    ("claim 1 {worker}", 0),
    ("claim:renew 1 {worker}", 0),
    ("claim:release 1 {worker}", 0),
    ("claim 1 {worker}", 0),
    ("snooze 1 --for 1h", 0),
    ("add B --queue tag", 0),
    ("block 2 1", 0),
    ("unblock 2 1", 0),
    ("done 1 --force", 0),
    ("fail 2 --error no --force", 0),
    ("retry 2", 0),
    ("cancel 2", 0),
    ("results 1", 0),
    ("wait 1 --for done", 0),
    ("queue list", 0),
    ("queue set tag --max-depth 10", 0),
    ("pause tag", 0),
    ("resume tag", 0),
    ("scale tag=2", 0),
    ("reset worker:tag:0", 0),
    ("drain", 6),
    ("orchestrator status", 6),
    ("orchestrator stop", 6),
    ("worker stop {worker}", 0),
    ("worker deregister {worker}", 0),
    ("source list", 0),
    ("source forget numbers", 3),
    ("schedule add nightly --cron '0 3 * * *' --kind tag", 0),
    ("schedule list", 0),
    ("schedule show nightly", 0),
    ("schedule pause nightly", 0),
    ("schedule resume nightly", 0),
    ("schedule run nightly", 0),
    ("schedule remove nightly", 0),
    ("open", 0),
    ("token create ci --scope read", 0),
    ("token list", 0),
    ("token revoke {token}", 0),
    ("reconcile", 0),
    ("events", 0),
    ("prune", 0),
    ("doctor", 0),
    ("top", 0),
    ("mcp", 0),
    ("completion bash", 0),
    ("help", 0),
    ("tracking status", 3),
]
# These go on until they are ended.
CREWS = {
    "run": "run --app shop:app --pool tag=1",
    "orchestrator start": "orchestrator start --app shop:app --pool tag=1 --no-http",
    "worker start": "worker start --app shop:app --queue tag",
    "worker exec": "worker exec --queue tag -- true",
}
REFUSED = {
    "init": ("init", 6),
    "serve": ("serve --port 0", 2),
    "migrate": ("migrate", 2),
    "tracking install": ("tracking install", 2),
    "tracking uninstall": ("tracking uninstall --yes", 2),
    "tracking prune": ("tracking prune", 2),
    "source check": ("source check numbers --app shop:app", 6),
    "bench": ("bench", 2),
    "chaos": ("chaos --minutes 0.01", 2),
}
# It has a folder and an API of its own, whatever database is named.
ON_ITS_OWN = {"demo"}


def name_of(words: str) -> str:
    """The command that these words call."""
    return next(each for each in sorted(names(), key=len, reverse=True) if f"{words} ".startswith(f"{each} "))


def names() -> set[str]:
    return {verb.name for verb in all_verbs()}


def test_no_command_is_left_out_here() -> None:
    called = {name_of(words) for words, _ in CALLS}
    assert called | set(CREWS) | set(REFUSED) | ON_ITS_OWN == names()
    assert not called & set(REFUSED)


def test_every_command_is_answered_by_the_api(shell: Shell) -> None:
    (shell.folder / "shop.py").write_text(APP)
    known = {"worker": "", "token": ""}
    for words, code in CALLS:
        given = [word.format(**known) for word in shlex.split(words)]
        answer = shell.call(*given, *(["--json"] if name_of(words) in ("worker register", "token create") else []))
        assert answer.returncode == code, (words, answer)
        assert "where the database is" not in answer.stderr, words
        for noun in known:
            if name_of(words) in (f"{noun} register", f"{noun} create"):
                known[noun] = answer.stdout.partition('"id":')[2].split('"')[1]


@pytest.mark.parametrize("words", CREWS.values(), ids=CREWS)
def test_every_crew_works_for_the_api_until_it_is_ended(shell: Shell, words: str) -> None:
    (shell.folder / "shop.py").write_text(APP)
    job = shell.add("A", "--queue", "tag", "--kind", "tag", "--payload", '{"n": 1}')
    crew = shell.exporting(ROTA_HTTP_PORT="0").start(*shlex.split(words))
    try:
        eventually(lambda: shell.ask("show", job)["status"] == "done", within=60)
        crew.terminate()
        assert crew.wait(60) == 0
    finally:
        crew.kill()
        crew.communicate()


@pytest.mark.parametrize(("words", "code"), REFUSED.values(), ids=REFUSED)
def test_what_needs_the_database_says_so_and_does_nothing(shell: Shell, words: str, code: int) -> None:
    (shell.folder / "shop.py").write_text(APP)
    before = {*shell.folder.iterdir()}
    told = shell.refuse(*shlex.split(words), code=code)
    assert "where the database is" in told
    assert {*shell.folder.iterdir()} - {shell.folder / "__pycache__"} == before
