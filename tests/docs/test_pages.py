"""Pages written by hand: their links lead somewhere, their examples run, and their shapes are the real ones."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.cli.verbs import all_verbs
from rota.settings import MEANINGS
from tests.docs.pages import ROOT, anchors, blocks, links, name, pages, rows, texts, write_files

# One word of every line on security in the list of faults.
SECURED = (
    *("listens", "Scopes", "constant time", "Host", "Origin", "JSON only", "policy", "text stays text", "parameters"),
    *("pattern", "unpickled", "Captures", "terminal", "Size and depth", "0600", "roles", "caller's rights", "Secrets"),
    "who did it",
)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SUCCEEDED = ("tag-workers", "tracking-functions", "orchestration-primitives")
BIN = Path(sys.executable).parent
# Folders of a home or a machine, and the host of a package index or mirror. What this file says itself is in pieces.
MACHINE = re.compile("|".join((r"/ho" r"me/\w", r"/ro" r"ot/", r"/wo" r"rk/", r"/Us" r"ers/\w")))
REGISTRY = re.compile("|".join((r"pythonhost" r"ed", r"registry\.n" r"pmjs", r"index-" r"url =", r"py" r"pi\.")))
# What a worker does when it says hello.
DECLARE = (
    "from rota import App; from rota.core.source import Declared; "
    'App().store.sources.declare([Declared("files", "tag", "tag", 30000000, 100, 1000, 3)])'
)
# What people look for when jobs are to run at their time, in their order, or in a test.
FEATURES = (
    *("cron", "rota schedule", "time zones", "missed", "one run across hosts"),
    *("batch", "one after another", "fan-in", "snooze", "debounce", "unique jobs"),
    *("rota.testing", "works off a", "pytest", "temporary store", "clock", "rota[otel]"),
)


def bash(script: str, folder: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ROTA_")}
    environment["PATH"] = f"{BIN}:{environment['PATH']}"
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/tutorial.md",
        "docs/howto/schedules.md",
        "docs/howto/flow.md",
        "docs/howto/from-orchestration-primitives.md",
        "docs/howto/from-cron.md",
        "docs/howto/long-jobs.md",
    ],
)
def test_the_runnable_blocks_of_a_page_run_one_after_another_in_an_empty_folder(page: str, tmp_path: Path) -> None:
    scripts = blocks(ROOT / page, "bash", "runnable")
    assert scripts, "nothing to run"
    bash("\n".join(scripts), tmp_path)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/reference/python.md",
        "docs/howto/schedules.md",
        "docs/howto/flow.md",
        "docs/howto/from-celery.md",
        "docs/howto/from-rq.md",
        "docs/howto/from-huey.md",
        "docs/howto/from-cron.md",
        "docs/howto/long-jobs.md",
        "docs/howto/gpu-workers.md",
    ],
)
def test_the_python_blocks_of_a_page_run_one_after_another(page: str, tmp_path: Path) -> None:
    script = "\n".join(blocks(ROOT / page, "python"))
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_the_files_of_the_page_on_tests_pass_under_pytest(tmp_path: Path) -> None:
    page = ROOT / "docs/howto/testing.md"
    write_files(page, tmp_path)
    words = [sys.executable, "-m", "pytest", "-q", "-W", "error", "--ignore=test_orders.py"]  # that needs PostgreSQL
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "4 passed" in ran.stdout, ran.stdout + ran.stderr


def test_what_the_tutorial_shows_is_what_a_reader_sees(tmp_path: Path) -> None:
    shown = bash("\n".join(blocks(ROOT / "docs/tutorial.md", "bash", "runnable")), tmp_path)
    for block in blocks(ROOT / "docs/tutorial.md", "text"):
        for line in block.splitlines():
            assert _loosely(line) in _loosely(shown), line


def _loosely(text: str) -> str:
    """Without ages, which depend on the moment, and without alignment, which depends on them."""
    return " ".join(re.sub(r"\b\d+(\.\d+)?m?s\b", "", text).split())


@pytest.mark.parametrize(
    ("heading", "script"),
    [
        ("Job", "rota show 1 --json"),
        ("Claim", "rota claim 1 --json"),
        ("Run", "rota claim 1 > claimed; rota done 1 > ended; rota runs 1 --json | jq '.[0]'"),
        ("Worker", "rota worker register --name w --json"),
        ("Queue", "rota queue list --json | jq '.[0]'"),
        ("Source", f"python -c '{DECLARE}'; rota source list --json | jq '.[0]'"),
        ("Schedule", "rota schedule add nightly --cron '0 2 * * *' --json"),
        ("Reconcile", "rota reconcile --plan --json"),
    ],
)
def test_a_documented_shape_has_exactly_the_fields_that_rota_prints(heading: str, script: str, tmp_path: Path) -> None:
    printed: dict[str, Any] = json.loads(bash(f"rota add one > added; {script}", tmp_path))
    documented = [cells[0].strip("`") for cells in rows(ROOT / "docs/reference/json.md", heading)]

    assert documented == list(printed)


@pytest.mark.parametrize("page", [*sorted((ROOT / "docs").glob("[eht]*/*.md")), ROOT / "README.md"], ids=name)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    known = {each for verb in all_verbs() for each in (verb.name, *verb.aliases)}
    for said in re.findall(r"`rota ([a-z][^`]*)`", page.read_text(encoding="utf-8")):
        first, second, *_ = [*str(said).split(), "", ""]
        assert first in known or f"{first} {second}" in known or second == "…", said


@pytest.mark.parametrize("page", [ROOT / f"docs/howto/from-{system}.md" for system in SUCCEEDED], ids=name)
def test_every_column_and_setting_to_which_a_page_maps_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    schema = (ROOT / "docs/reference/schema.md").read_text(encoding="utf-8")
    tables = {part.split("\n", 1)[0]: part for part in schema.split("\n## ")[1:]}
    for table, column in re.findall(r"`(\w+)\.(\w+)`", text):
        assert table not in tables or f"| `{column}` |" in tables[table], f"{table}.{column}"
    for setting in re.findall(r"\| `([a-z_]+)`, \d", text):
        assert setting in MEANINGS, setting


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_is_found_from_the_index_of_the_guides(feature: str) -> None:
    assert feature in (ROOT / "docs/howto/index.md").read_text(encoding="utf-8")


def test_the_readme_lists_the_layers_that_the_contract_has() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    listed = [layer for layer, _ in rows(ROOT / "README.md", "Layers")]
    assert re.findall(r"[\w.]+", " ".join(listed)) == re.findall(r"[\w.]+", " ".join(layers))


def test_the_contributing_guide_shows_the_ways_of_a_job_and_of_a_death() -> None:
    pictures = blocks(ROOT / "docs/explanation/way-of-a-job.md", "mermaid")
    assert len(pictures) == 2 and blocks(ROOT / "CONTRIBUTING.md", "mermaid") == pictures
    files = re.findall(r"<br>([\w/]+\.py)", "".join(pictures))
    assert files and all((ROOT / "src/rota" / file).exists() for file in files)


def test_every_function_on_the_way_of_a_job_and_of_a_death_exists() -> None:
    text = (ROOT / "docs/explanation/way-of-a-job.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| [\w ]+ \| `([\w/]+\.py)` `([\w.]+)` \|", text, re.MULTILINE)
    assert len(steps) > 80
    gone = [(file, name) for file, name in steps if name not in functions(ROOT / "src/rota" / file)]
    assert not gone, "where did they go? tests/e2e/test_way_of_a_job.py tells whether the order is still right"


def functions(path: Path) -> set[str]:
    """The functions of a file, and the methods with their class."""
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    methods = {f"{c.name}.{node.name}" for c in classes for node in c.body if isinstance(node, DEFINITIONS)}
    return methods | {node.name for node in body if isinstance(node, DEFINITIONS)}


def test_every_public_name_is_documented() -> None:
    text = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    for public in dir(rota):
        assert re.search(rf"\b{public}\b", text) or public == "__version__", public


def test_every_fault_is_on_its_page_once_with_tests_that_exist() -> None:
    text = (ROOT / "docs/explanation/faults.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| (\S+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
    faults = [row for row in found if row[0] not in ("fault", "|---|---|---|")]
    lettered = ("20a", "20b", "21a", "26a", "35a", "35b", "35c")
    numbers = [number for number, *_ in faults if number != "–"]
    assert sorted(numbers) == sorted([*map(str, range(1, 45)), *lettered])
    for number, _, tests in faults:
        named_tests_exist(number, tests)


def named_tests_exist(about: str, tests: str) -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", tests)
    assert named, about
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{about}: {file}::{test}"


def test_every_promise_of_security_is_on_its_page_with_tests_that_exist() -> None:
    found = rows(ROOT / "docs/explanation/security.md", "What is promised, and which test holds it")
    for promise, tests in found:
        named_tests_exist(promise, tests)
    told = " ".join(promise for promise, _ in found)
    for word in SECURED:
        assert word in told, word


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("store/jobs/explain.py", "is not ready yet."),
        ("store/jobs/explain.py", "time of late; the next starts in"),
        ("store/jobs/explain.py", "has failed since"),
        ("store/jobs/explain.py", "there is no worker"),
        ("core/slot.py", "was not ready in time,"),
        ("core/slot.py", "times within"),
        ("cli/doctor/environment.py", ", and no worker serves it"),
        ("cli/doctor/environment.py", "does not have"),
        ("cli/verbs/maintenance.py", "would mend: "),
        ("orchestrator/supervisor.py", "killing it: "),
        ("orchestrator/maintenance.py", "is stopped and keeps the store locked"),
        ("orchestrator/maintenance.py", "waiting for the store, whose write lock"),
        ("store/sqlite/lock.py", "waiting for the write lock, held by process "),
        (
            "store/sqlite/database.py",
            "stayed locked by a program that does not queue for it: is another tool writing to it?",
        ),
    ],
)
def test_a_message_that_troubleshooting_quotes_is_one_that_rota_says(file: str, message: str) -> None:
    source = (ROOT / "src/rota" / file).read_text(encoding="utf-8")
    page = " ".join((ROOT / "docs/howto/troubleshooting.md").read_text(encoding="utf-8").split())

    assert message in source.replace("{when}", "since") and message.strip() in page


def test_no_text_names_a_machines_folder_or_a_package_index() -> None:
    for path in texts():
        text = path.read_bytes().decode("utf-8", "replace")
        for pattern in (MACHINE, REGISTRY):
            assert pattern.findall(text) == [], name(path)


def test_no_placeholder_is_left() -> None:
    for page in pages():
        assert not re.search(r"@[A-Z]+@|\bTODO\b|\bFIXME\b", page.read_text(encoding="utf-8")), name(page)
