"""Pages that come from the code are fresh, and say all there is to say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers.compare import RAW
from docs.generate import PAGES, outdated
from docs.pages import errors as error_page
from docs.pages import events, performance, schema, states
from rota.cli.verb import GLOBAL, Verb
from rota.cli.verbs import all_verbs
from rota.core import claim, job, orchestrator, worker
from rota.live import feed
from rota.settings import MEANINGS, Settings
from tests.docs.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"


def read(page: str) -> str:
    return (REFERENCE / page).read_text(encoding="utf-8")


def test_every_generated_page_is_fresh() -> None:
    assert outdated() == [], "run ./dev docs"


def test_the_check_fails_when_a_page_is_out_of_date_and_names_it(tmp_path: Path) -> None:
    for folder in ("docs", "benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    page = tmp_path / "docs" / next(iter(PAGES))
    page.write_text("stale\n", encoding="utf-8")
    command = [sys.executable, str(tmp_path / "docs" / "generate.py"), "--check"]
    checked = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)

    assert checked.returncode == 1
    assert page.name in checked.stdout
    assert page.read_text(encoding="utf-8") == "stale\n"


@pytest.mark.parametrize("verb", all_verbs(), ids=lambda verb: verb.name)
def test_a_verb_is_documented_with_its_arguments_options_and_example(verb: Verb) -> None:
    section = read("cli.md").split(f"### rota {verb.name}\n", 1)[1].split("\n### ")[0]

    assert verb.example in section
    for argument in verb.arguments:
        assert f"| `{argument.name}" in section
    for option in verb.options:
        assert f"| `{option.flag}" in section
        assert len(option.help) > 5, f"{option.flag} says nothing about itself"


def test_the_options_of_every_command_are_documented() -> None:
    for option in GLOBAL:
        assert f"| `{option.flag}" in read("cli.md")


def test_every_setting_is_documented_with_its_default() -> None:
    assert set(MEANINGS) == set(Settings.__match_args__)
    for name in MEANINGS:
        assert f"| `{name}` | `ROTA_{name.upper()}` |" in read("settings.md")


def test_every_state_has_a_meaning() -> None:
    assert tuple(states.JOB) == job.STATES
    assert tuple(states.CLAIM) == claim.STATES
    assert tuple(states.WORKER) == worker.STATES
    assert (*states.WORKER, *states.SHOWN) == worker.SHOWN
    assert tuple(states.ORCHESTRATOR) == orchestrator.STATES


def test_every_error_and_exit_code_is_documented() -> None:
    classes = error_page.classes()

    assert {each.exit_code for each in classes} == set(error_page.CODES) - {0}
    for each in classes:
        assert f"| `{each.__name__}` |" in read("errors.md")


def test_every_table_of_the_schema_has_a_meaning() -> None:
    headings = [line.removeprefix("## ") for line in read("schema.md").splitlines() if line.startswith("## ")]
    assert headings == sorted(schema.MEANINGS)


def test_the_columns_of_a_job_that_are_said_to_be_empty_are_those_that_no_statement_writes() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src/rota/store").glob("**/*.sql")]
    statements = [re.sub(r"--.*", "", each) for text in texts for each in text.split("-- name: ")]
    written = " ".join(each for each in statements if re.search(r"INSERT INTO job |UPDATE job SET ", each))
    section = read("schema.md").split("\n## job\n")[1].split("\n## ")[0]
    columns = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert [name for name in columns if not re.search(rf"\b{name}\b", written)] == list(schema.UNFILLED)


def test_every_system_that_is_measured_is_told_about_in_the_comparison() -> None:
    measured = {peer["name"].partition(",")[0] for peer in performance.last_run()["peers"]} - {RAW}
    told = (ROOT / "docs/explanation/comparison.md").read_text(encoding="utf-8").split("\n## ")[1]
    named = {word for row in re.findall(r"^\| (.+?) \|", told, re.MULTILINE) for word in re.findall(r"[\w-]+", row)}
    assert measured <= named


@pytest.mark.parametrize("page", ["docs/explanation/comparison.md", "docs/pages/reliability.template"])
def test_figures_of_other_systems_are_on_no_page_that_a_new_run_does_not_write(page: str) -> None:
    rows = [
        line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if "again" in line or "rota" in line
    ]
    assert rows and not [row for row in rows if re.search(r"\d ms|after [\d.]+ s\b|[\d,]+ (jobs )?a second", row)]


def test_every_fact_that_the_code_tells_is_on_the_page_of_events_and_no_other() -> None:
    assert {(noun, verb) for noun, verbs in events.FACTS.items() for verb in verbs} == set(events.told())
    assert set(events.MOVES) == {verb for _, verb in job.MOVES}
    for noun, verb in events.told():
        assert f"| {noun} | `{verb}` |" in read("events.md")


def test_every_type_of_event_is_documented() -> None:
    assert set(events.TYPES) == set(feed.TYPES)
    for type in feed.TYPES:
        assert f"| `{type}` |" in read("events.md") and f"`{type}`" in read("json.md")
