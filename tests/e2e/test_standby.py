"""A standby of PostgreSQL can be looked at as the primary can; what has to write there is told why it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import postgres
from tests.support.eventually import eventually
from tests.support.shell import Shell
from tests.support.standby import standby
from tests.top.test_terminal import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[str, str]]:
    """A primary and its standby."""
    with postgres.own() as primary, standby(primary.url) as copy:
        yield primary.url, copy


@pytest.fixture
def shells(servers: tuple[str, str], tmp_path: Path) -> tuple[Shell, Shell]:
    """One for the primary, where two jobs are, and one for the standby, which has them too."""
    main, copy = (Shell(tmp_path, ROTA_DB=url) for url in servers)
    main.call("init")
    main.say("add", "first", "--queue", "tag", "--kind", "k")
    last = main.say("add", "second", "--queue", "tag", "--kind", "k", "--after", "1").split()[1]
    eventually(lambda: copy.call("show", last).returncode == 0)
    return main, copy


@pytest.mark.parametrize(
    "words",
    [["list"], ["show", "1"], ["why", "2"], ["runs", "1"], ["queue", "list"], ["worker", "list"], ["schedule", "list"]],
    ids=" ".join,
)
def test_a_standby_answers_as_the_primary_does(words: list[str], shells: tuple[Shell, Shell]) -> None:
    main, copy = shells
    assert copy.ask(*words) == main.ask(*words)


def test_doctor_says_that_a_standby_takes_no_changes(shells: tuple[Shell, Shell]) -> None:
    main, copy = shells
    assert "a standby" in copy.say("doctor") and "a standby" not in main.say("doctor")


def test_top_follows_a_standby(shells: tuple[Shell, Shell], tmp_path: Path) -> None:
    main, copy = shells
    with terminal(tmp_path, "top", **copy.env) as top:
        top.says("1 Queues")
        top.says("tag")
        main.say("add", "third", "--queue", "shown-later", "--kind", "k")
        top.says("shown-later")
        top.type("q")
        assert top.wait() == 0


@pytest.mark.parametrize("words", [["add", "more"], ["claim", "1"], ["cancel", "1"], ["serve"]], ids=" ".join)
def test_what_writes_is_refused_on_a_standby_and_told_where_to_go(
    words: list[str], shells: tuple[Shell, Shell]
) -> None:
    assert "is read-only: is it a standby? Name the server that takes writes" in shells[1].refuse(*words, code=1)
