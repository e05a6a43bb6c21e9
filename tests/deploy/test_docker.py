"""The image and the compose file: what docker would be told, held against what is there. No docker runs here."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import yaml
from packaging.requirements import Requirement

from rota.core.times import SECOND, parse_duration
from tests.deploy.words import DEPLOY, LAST_STEPS, VARIABLES, parsed
from tests.docs.pages import ROOT, texts

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = DEPLOY / "docker"
STAGES = re.compile(r"^FROM (\S+)(?: AS (\w+))?$", re.MULTILINE)


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    return found


def of_rota() -> dict[str, dict[str, Any]]:
    return {name: service for name, service in services().items() if name != "db"}


def plain(text: str) -> str:
    """With the defaults of its variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def admitted(path: Path) -> bool:
    """Whether the build sees a file: the last line of Dockerfile.dockerignore that speaks of it decides."""
    name, seen = str(path.relative_to(ROOT)), True
    for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        folders = [name, *(name[: place.start()] for place in re.finditer("/", name))]
        if line and not line.startswith("#") and any(fnmatch.fnmatchcase(each, pattern) for each in folders):
            seen = line.startswith("!")
    return seen


def test_a_wheel_can_be_built_from_what_the_image_is_given(tmp_path: Path) -> None:
    for file in filter(admitted, texts()):
        place = tmp_path / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    assert {path.name for path in tmp_path.iterdir()} == {
        "LICENSE", "hatch_build.py", "pyproject.toml", "requirements", "src", "web",
    }  # fmt: skip
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(built, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("rota-*.whl")
    assert wheel.stat().st_size > 100_000


def test_the_image_copies_from_its_own_stages_and_runs_as_nobody_special() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    stages = STAGES.findall(text)
    assert [name for _, name in stages] == ["node", "build", ""], "the last one has no compiler and no sources"
    assert set(re.findall(r"--from=(\w+)", text)) <= {name for _, name in stages}
    last = text[text.rindex("\nFROM ") :]
    (user,) = re.findall(r"^USER (\d+):\d+$", last, re.MULTILINE)
    assert f"--uid {user}" in last
    assert 'ENTRYPOINT ["rota"]' in last


def test_the_constraints_are_the_versions_of_the_lock_each_once() -> None:
    (command,) = re.findall(r"^RUN (grep .+) >constraints.txt$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    pinned = subprocess.run(["sh", "-c", command], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    read = [Requirement(line) for line in pinned.splitlines()]
    names = [each.name for each in read if each.marker is None or each.marker.evaluate()]
    lock = (ROOT / "requirements/dev.txt").read_text()
    assert len(read) == len(re.findall(r"^[a-z0-9._-]+==", lock, re.MULTILINE | re.IGNORECASE))
    assert len(names) == len(set(names)) and {"apsw", "psycopg", "uvicorn"} <= set(names)


def test_every_service_calls_a_command_that_exists_with_settings_that_exist() -> None:
    called = {name: parsed([plain(word) for word in service["command"]])[0] for name, service in of_rota().items()}
    assert called == {"migrate": "init", "orchestrator": "orchestrator start", "api": "serve"}
    for service in of_rota().values():
        assert {name for name in service["environment"] if name.startswith("ROTA_")} <= VARIABLES
    kind, *check = services()["orchestrator"]["healthcheck"]["test"]
    assert (kind, check[0], parsed(check[1:])[0]) == ("CMD", "rota", "orchestrator status")
    assert "/readyz" in services()["api"]["healthcheck"]["test"][-1]


def test_services_wait_for_what_they_need() -> None:
    for name, service in of_rota().items():
        for other, wanted in service["depends_on"].items():
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in services()[other], name
            else:
                assert wanted["condition"] == "service_completed_successfully"
                assert services()[other]["restart"] == "no", "it would never be complete"


def test_a_stop_lets_the_jobs_in_hand_finish() -> None:
    orchestrator = services()["orchestrator"]
    finish = parse_duration(orchestrator["environment"]["ROTA_SHUTDOWN_TIMEOUT"]) / SECOND
    minutes, seconds = re.fullmatch(r"(\d+)m(\d+)s", orchestrator["stop_grace_period"]).groups()  # type: ignore[union-attr]
    assert int(minutes) * 60 + int(seconds) > finish + LAST_STEPS
