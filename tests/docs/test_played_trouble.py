"""What the pages on trouble show is what a reader in that trouble sees: each is made, and its commands are typed in."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.docs.played import bash, loosely
from tests.docs.test_played import HOWTO
from tests.support.eventually import eventually
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.crew

APP = """
import os, time, rota

app = rota.App()


@app.setup(queue="tag")
def load() -> None:
    {setup}


@app.task(queue="tag")
def tag() -> None: ...
"""
NEWEST = "$(rota worker list --all --json | jq -r '.[0].id')"
LATE = r"status +late\n"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    made.say("init")
    return made


def steps(name: str, heading: str = "") -> list[tuple[str, str]]:
    """The commands under a heading of a page, each with what is shown to come of it."""
    text = (HOWTO / f"{name}.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0] if heading else text
    found = "".join(re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
    assert found, f"no commands under {heading}"
    parts = [part.partition("\n") for part in re.split(r"^\$ ", found, flags=re.MULTILINE)[1:]]
    return [(re.sub(r"\s+# .*", "", command), shown.replace("…\n", "")) for command, _, shown in parts]


def is_shown(shell: Shell, command: str, shown: str, pattern: str) -> bool:
    said = bash(f"{command} || (( $? == 6 ))", shell.folder, **shell.env)  # 6: a worker is not well
    return loosely(shown) in loosely(said) and (bool(shown) or re.search(pattern, said) is not None)


def follow(shell: Shell, name: str, heading: str, *, worker: str = NEWEST, pattern: str = "") -> None:
    """Type every command until it says what the page shows; where that is nothing, one on a worker tells this."""
    for command, shown in steps(name, heading):
        typed = re.sub(r"worker-\w{8}", lambda _: worker, command)
        wanted = pattern if typed != command else ""
        eventually(partial(is_shown, shell, typed, shown, wanted), within=60)


@contextmanager
def crew(shell: Shell, setup: str = "pass", **env: str) -> Iterator[None]:
    (shell.folder / "shop.py").write_text(APP.format(setup=setup))
    started = shell.exporting(**env).start("orchestrator", "start", "--app", "shop:app", "--pool", "tag=1", "--no-http")
    try:
        eventually(lambda: shell.call("why", "worker:tag:0").returncode == 0)
        yield
    finally:
        started.terminate()
        started.communicate(timeout=60)


def test_a_slot_is_stuck_starting_as_shown(shell: Shell) -> None:
    with crew(shell, "time.sleep(600)", ROTA_STARTUP_TIMEOUT="1s", ROTA_RESTART_BACKOFF="50ms"):
        follow(shell, "troubleshooting", "A slot is stuck starting")


def test_a_crash_loop_looks_as_shown(shell: Shell) -> None:
    with crew(shell, "os._exit(3)", ROTA_RESTART_BACKOFF="100ms"):
        follow(shell, "troubleshooting", "A crash loop", pattern=r"died .*exited with code 3\n")


def test_where_nothing_is_processed_the_commands_say_so(shell: Shell) -> None:
    for _ in range(5):
        shell.add("Tag", "--queue", "tag")
    follow(shell, "troubleshooting", "Nothing is processed")
    assert "there is no worker" in shell.say("why", 5)


def test_an_orphaned_claim_is_seen_and_mended_as_shown(shell: Shell) -> None:
    job, worker = shell.add("Tag"), shell.register("loop", "--every", "1s")
    shell.say("claim", job, worker)
    shell.say("worker", "heartbeat", worker)
    follow(shell, "troubleshooting", "Orphaned claims", worker=worker, pattern=LATE)
    assert shell.ask("show", job)["status"] == "ready"


def test_a_worker_that_was_recycled_has_the_certificate_that_the_page_on_leaks_shows(shell: Shell) -> None:
    with crew(shell, ROTA_MAX_JOBS="1"):
        shell.say("wait", shell.add("Tag", "--queue", "tag", "--kind", "tag"), "--timeout", "60s")
        died = "$(rota worker list --all --json | jq -r '.[] | select(.status == \"dead\").id')"
        eventually(lambda: "dead" in shell.say("worker", "list", "--all"))
        follow(shell, "memory-leaks", "", worker=died)
