"""The units: systemd finds nothing wrong with them, and what they start behaves as they say."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rota.core.times import SECOND, parse_duration
from rota.settings import Settings
from tests.deploy.words import DEPLOY, LAST_STEPS, VARIABLES, parsed
from tests.docs.pages import ROOT, blocks
from tests.support.crews import Crew
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

UNITS = DEPLOY / "systemd"
BIN = Path(sys.executable).parent
INSTALLED = "/opt/rota/bin"
UNIT_SECONDS = {"s": 1, "min": 60}


def directives(unit: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", (UNITS / unit).read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def seconds(unit: str, name: str) -> float:
    (text,) = directives(unit)[name]
    number, word = re.fullmatch(r"(\d+)(s|min)", text).groups()  # type: ignore[union-attr]
    return int(number) * UNIT_SECONDS[word]


def told(unit: str) -> dict[str, str]:
    """The environment that a unit sets."""
    pairs = [word.partition("=") for text in directives(unit)["Environment"] for word in shlex.split(text)]
    return {name: value for name, _, value in pairs}


def words(unit: str, **environment: str) -> list[str]:
    """What a unit starts, as systemd would split it."""
    (line,) = directives(unit)["ExecStart"]
    for name, value in {**told(unit), **environment}.items():
        line = line.replace(f"${name}", value)
    return shlex.split(line)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as they are where rota's programs are those of this environment."""
    (tmp_path / "bin").symlink_to(BIN)  # systemd splits a path at spaces
    for unit in UNITS.glob("rota*.*"):
        (tmp_path / unit.name).write_text(unit.read_text().replace(INSTALLED, str(tmp_path / "bin")))
    return tmp_path


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.end()


def analyze(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], cwd=folder, capture_output=True, text=True, check=False)


def test_systemd_finds_nothing_wrong_with_the_units(installed: Path) -> None:
    units = [f"./{unit.name}" for unit in sorted(installed.glob("*.service")) + sorted(installed.glob("*.timer"))]
    assert len(units) == 4
    found = analyze("verify", "--man=no", *units, folder=installed)
    # A line that is not understood is told, and yet the exit code is 0.
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", ["rota.service", "rota-api.service", "rota-prune.service"])
def test_a_unit_is_hardened(unit: str, installed: Path) -> None:
    found = analyze("security", "--offline=yes", "--threshold=30", f"./{unit}", folder=installed)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("unit", ["rota.service", "rota-api.service", "rota-prune.service"])
def test_a_unit_calls_a_command_that_exists_with_settings_that_exist(unit: str) -> None:
    program, *rest = words(unit)
    assert program == f"{INSTALLED}/rota"
    parsed(rest)
    assert {name for name in told(unit) if name.startswith("ROTA_")} <= VARIABLES


def test_the_example_of_an_environment_fits_its_unit() -> None:
    lines = re.findall(r"^#?(\w+)=(.*)$", (UNITS / "rota.env").read_text(), re.MULTILINE)
    given = dict(lines)
    assert {name for name in given if name.startswith("ROTA_")} <= VARIABLES
    name, called = parsed(words("rota.service", CREW=given["CREW"])[1:])
    assert (name, called["app"]) == ("orchestrator start", "shop:app")


def test_systemd_waits_longer_than_rota_does() -> None:
    finish = parse_duration(told("rota.service")["ROTA_SHUTDOWN_TIMEOUT"]) / SECOND
    assert seconds("rota.service", "TimeoutStopSec") > finish + LAST_STEPS
    assert seconds("rota.service", "TimeoutStartSec") > Settings().startup_timeout / SECOND


def test_what_the_unit_starts_is_ready_alive_and_drained_at_stop(crew: Crew) -> None:
    watchdog = seconds("rota.service", "WatchdogSec")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(crew.folder / "notify"))
        listener.settimeout(watchdog)
        own = {name: value for name, value in told("rota.service").items() if name.startswith("ROTA_")}
        crew.env |= {**own, "NOTIFY_SOCKET": str(crew.folder / "notify"), "WATCHDOG_USEC": str(round(watchdog * 1e6))}
        crew.begin(*words("rota.service", CREW="--app shop:app --pool tag=1 --no-http")[1:])
        heard = listener.recv(4096).decode()
        while "READY=1" not in heard or "WATCHDOG=1" not in heard:
            heard += listener.recv(4096).decode()
        held, waiting = crew.add("hold", name="a"), crew.add("tag", n=1)
        eventually(lambda: crew.held_by("a"))
        subprocess.run(["kill", "-TERM", str(crew.pid)], check=True)
        while "STOPPING=1" not in heard:
            heard += listener.recv(4096).decode()
        crew.let_go("a")
        assert crew.wait() == 0
    assert crew.app.jobs.get(held).status == "done"
    assert crew.app.jobs.get(waiting).status == "ready", "a crew that stops begins nothing"


def test_workers_of_a_killed_orchestrator_are_left_to_finish() -> None:
    """With any other mode systemd ends them: see tests/orchestrator/test_crash.py for how they finish."""
    assert directives("rota.service")["KillMode"] == ["process"]
    assert directives("rota.service")["RuntimeDirectoryPreserve"] == ["yes"]


def test_systemd_understands_the_drop_in_of_the_guide(installed: Path) -> None:
    (block,) = blocks(ROOT / "docs/howto/deploy-systemd.md", "ini")
    (installed / "rota.service.d").mkdir()
    (installed / "rota.service.d" / "override.conf").write_text(block)
    found = analyze("verify", "--man=no", "./rota.service", folder=installed)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
