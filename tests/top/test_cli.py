"""`rota top` where it cannot draw: once, as text or JSON; and what it says when something is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.eventually import eventually
from tests.support.shell import Shell
from tests.top.test_terminal import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.crews import Crew


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.end()


@pytest.mark.crew
def test_without_a_terminal_it_tells_once_how_things_stand(either_crew: Crew) -> None:
    crew = either_crew
    id = crew.add("hold", name="a")
    crew.start("tag=1")
    eventually(lambda: crew.held_by("a"), within=60)
    shell = Shell(crew.folder, **crew.env)
    text = shell.say("top")
    assert text.splitlines()[0] == "healthy, 1 worker"
    assert "queues:" in text and "slots:" in text and "jobs in hand:" in text and "deaths:" not in text
    told = shell.ask("top")
    assert list(told) == ["at", "health", "attention", "queues", "slots", "jobs", "deaths"]
    assert [each["id"] for each in told["jobs"]] == [id]
    assert [each["name"] for each in told["slots"]] == ["worker:tag:0"]
    assert told["queues"][0]["counts"]["active"] == 1


def test_a_missing_database_is_said_before_anything_is_drawn(tmp_path: Path) -> None:
    with terminal(tmp_path, "top") as top:
        assert top.wait() == 3
        assert top.read().strip() == b"rota: there is no database here or in any folder above: `rota init` makes one"


def test_without_textual_it_says_how_to_install_it_and_still_tells_once(shell: Shell, tmp_path: Path) -> None:
    shell.make()
    absent = tmp_path / "absent" / "textual"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text("raise ModuleNotFoundError('No module named textual', name='textual')")
    with terminal(tmp_path, "top", PYTHONPATH=str(absent.parent)) as top:
        assert top.wait() == 1
        assert b"rota: rota top needs the package textual" in top.read()
        assert b"python -m pip install textual" in top.read()
    assert shell.exporting(PYTHONPATH=str(absent.parent)).say("top").startswith("healthy")


def test_a_terminal_that_cannot_be_drawn_on_gets_text(shell: Shell, tmp_path: Path) -> None:
    shell.make()
    with terminal(tmp_path, "top", TERM="dumb") as top:
        assert top.wait() == 0
        assert b"healthy, 0 workers" in top.read()
