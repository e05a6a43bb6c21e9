"""The verbs that a loop calls on every turn import next to nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from rota.cli.verbs import all_verbs, by_name, find
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from tests.support.shell import Shell

FORBIDDEN = {
    *("argparse", "msgspec", "asyncio", "psycopg", "typing", "re", "json", "dataclasses", "enum", "datetime"),
    *(
        "threading",
        "logging",
        "subprocess",
        "socket",
        "ctypes",
        "pathlib",
        "tomllib",
        "traceback",
        "importlib.metadata",
        "rota.cli.verbs.jobs",
    ),
}

STORES = ["sqlite", "remote"]


def test_every_verb_is_found_by_all_its_names() -> None:
    for name, verb in by_name().items():
        assert find([*name.split(), "more"]) == (verb, ["more"])


def imported(shell: Shell, *words: str | int) -> set[str]:
    """Every module that the call imports, as the interpreter itself reports."""
    answer = subprocess.run(
        [sys.executable, "-X", "importtime", ROTA, *map(str, words)],
        cwd=shell.folder,
        env=environment(**shell.env),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = [line for line in answer.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def test_the_hot_verbs_import_next_to_nothing(shell: Shell) -> None:
    first, second, worker = shell.add(), shell.add(), shell.register()
    calls: dict[str, list[str | int]] = {
        "worker register": ["worker", "register", "--name", "loop"],
        "worker heartbeat": ["worker", "heartbeat", worker, "--busy", first, "--cpu", 5, "--memory", 80],
        "ready": ["ready", "--limit", 1],
        "claim": ["claim", first, worker, "--lease", "30m"],
        "claim:renew": ["claim:renew", first, worker],
        "claim:release": ["claim:release", first, worker, "--note", "later"],
        "done": ["done", second],
        "worker deregister": ["worker", "deregister", worker],
    }
    assert set(calls) == {verb.name for verb in all_verbs() if verb.hot}
    for name, words in calls.items():
        for form in ([], ["--json"]):
            if name in ("claim", "done"):
                shell.call("claim:release", first, worker)
                shell.call("retry", second)
                shell.call(*(["claim", second, worker] if name == "done" else ["list"]))
            if name in ("claim:renew", "claim:release"):
                shell.call("claim", first, worker)
            found = imported(shell, *words, *form)
            assert {"rota.store.store", "rota.store.remote.store"} & found, "the report was read"
            assert not found & FORBIDDEN, (name, found & FORBIDDEN)


def test_a_store_elsewhere_needs_no_driver(shell: Shell) -> None:
    drivers = {"apsw", "psycopg"}
    is_remote = shell.env.get("ROTA_DB", "").startswith("http")
    for words in (["list"], ["queue", "list"], ["events"], ["worker", "list"]):
        assert bool(drivers & imported(shell, *words)) != is_remote, words


def test_the_others_do_import_argparse_so_the_report_can_be_trusted(shell: Shell) -> None:
    assert "argparse" in imported(shell, "list")
