"""Bad input: a clear line, the right exit code, no traceback, nothing changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.shell import Shell

BAD = [
    (3, "there is no job 99", ["show", "99"]),
    (3, "there is no job 99", ["claim", "99"]),
    (3, "there is no job 99", ["done", "99"]),
    (3, "there is no job 99", ["done", "99", "--token", "1"]),
    (3, "there is no job 99", ["claim:release", "99"]),
    (3, "there is no job 99", ["wait", "99"]),
    (3, "there is no job 99 to wait for", ["add", "B", "--after", "99"]),
    (3, "there is no job 99 to be the parent", ["add", "B", "--parent", "99"]),
    (3, "does not wait for", ["unblock", "1", "2"]),
    (2, "'five' is not a job id", ["show", "five"]),
    (2, "'-5' is not a job id", ["show", "-5"]),
    (2, "'-5' is not a job id", ["show", "--", "-5"]),
    (2, "'-5' is not a job id", ["claim", "-5"]),
    (2, "'-5' is not a job id", ["claim", "--", "-5"]),
    (2, "show has no option --id", ["show", "--id=5"]),
    (2, "put -- before a word", ["add", "-fix"]),
    (2, "is not a job id", ["show", "9" * 40]),
    (2, "is not a job id", ["show", "٣"]),
    (2, "the payload is not JSON", ["add", "B", "--payload", '{"a": }']),
    (2, "the payload is not JSON", ["add", "B", "--payload", "NaN"]),
    (2, "the payload is not JSON", ["add", "B", "--payload", ""]),
    (2, "nested too deeply", ["add", "B", "--payload", "[" * 100_000]),
    (2, "missing.json cannot be read", ["add", "B", "--payload", "@missing.json"]),
    (2, "the payload is too large", ["add", "B", "--payload", "@large.json"]),
    (2, "is not UTF-8", ["add", "B", "--payload", "@latin.json"]),
    (2, "the result is not JSON", ["done", "2", "--result", "{"]),
    (2, "the result is not JSON", ["done", "2", "--token", "1", "--result", "{"]),
    (2, "'soon' is not a duration", ["add", "B", "--timeout", "soon"]),
    (2, "'5' is not a duration", ["add", "B", "--timeout", "5"]),
    (2, "'-5s' is less than nothing", ["add", "B", "--timeout", "-5s"]),
    (2, "'later' is not a time", ["add", "B", "--at", "later"]),
    (2, "'-5m' is less than nothing", ["claim", "1", "--lease", "-5m"]),
    (2, "'-5' is less than nothing", ["ready", "--claim", "--lease", "-5"]),
    (2, "a lease must be longer than nothing", ["claim", "1", "--lease", "0"]),
    (2, "'1y' is not a duration", ["claim", "1", "--lease", "1y"]),
    (2, "--lease needs a value", ["claim", "1", "--lease"]),
    (2, "--lease needs a value", ["claim", "1", "--lease", "--json"]),
    (2, "queue set has no option --max-dept: did you mean --max-depth?", ["queue", "set", "q", "--max-dept", "5"]),
    (2, "'0' is too few", ["queue", "set", "q", "--concurrency", "0"]),
    (2, "'fast' is not a rate", ["queue", "set", "q", "--rate", "fast"]),
    (2, "'maybe' is not one of tell, end, none", ["queue", "set", "q", "--fence", "maybe"]),
    (2, "queue set needs a limit to set", ["queue", "set", "q"]),
    (2, "--status was given 2 times, as 'done' and 'failed'", ["list", "--status", "done", "--status=failed"]),
    (2, "--queue was given 2 times", ["ready", "--queue", "a", "--queue", "b"]),
    (2, "--claim was given 2 times", ["ready", "--claim", "w", "--claim"]),
    (2, "--rate was given 2 times", ["queue", "set", "q", "--rate", "1/s", "--rate", "2/s"]),
    (2, "--db was given 2 times", ["--db", "a", "list", "--db", "b"]),
    (2, "q was given 2 sizes", ["scale", "q=1", "q=2"]),
    (2, "q was given 2 sizes", ["orchestrator", "start", "--pool", "q=1", "--pool", "q=2"]),
    (2, "is not a queue name", ["add", "B", "--queue", "a b"]),
    (2, "job 1 cannot wait for job 1", ["block", "1", "1"]),
    (2, "job 2 waits for job 1 already", ["block", "1", "2"]),
    (2, "a job needs a title", ["add", "  "]),
    (2, "the title may have at most 1000 characters", ["add", "x" * 1001]),
    (2, "add needs TITLE", ["add"]),
    (2, "show needs ID, or set ROTA_JOB_ID", ["show"]),
    (2, "show has no place for '6'", ["show", "5", "6"]),
    (2, "claim has no place for 'more'", ["claim", "5", "w", "more"]),
    (2, "--json takes no value", ["claim", "5", "--json=yes"]),
    (2, "fail needs --error", ["fail", "1"]),
    (2, "the worker id is empty", ["claim", "1", ""]),
    (2, "a worker needs a name", ["worker", "register", "--name", " "]),
    (2, "cannot beat more often", ["worker", "register", "--name", "a", "--every", "1ms"]),
    (2, "'x' is not a whole number", ["add", "B", "--priority", "x"]),
    (2, "priority must be a whole number", ["add", "B", "--priority", "99999999999"]),
    (2, "'much' is not a number", ["worker", "heartbeat", "w", "--cpu", "much"]),
    (2, "'dead' is not one of blocked", ["list", "--status", "dead"]),
    (2, "'x' is not a token", ["done", "1", "--token", "x"]),
    (2, "did you mean `rota list`?", ["lst"]),
    (2, "did you mean `rota list`?", ["ls"]),
    (2, "did you mean `rota add`?", ["enqueue", "a"]),
    (2, "did you mean `rota orchestrator status`?", ["status"]),
    (2, "did you mean `rota worker`?", ["wrker", "list"]),
    (2, "did you mean `rota worker register`?", ["worker", "regster"]),
    (2, "worker needs one of: deregister, exec, heartbeat, list", ["worker"]),
    (
        2,
        "'tag' is not a pool: write for example tag=2",
        ["orchestrator", "start", "--app", "shop:app", "--pool", "tag"],
    ),
    (2, "'tag=-1' is no size: write for example tag=4", ["scale", "tag=-1"]),
    (3, "there is no slot worker:tag:9", ["reset", "worker:tag:9"]),
    (6, "no orchestrator is running here", ["orchestrator", "stop"]),
    (2, "--lease goes with --claim", ["ready", "--lease", "5m"]),
    (2, "'tcsh' is not one of bash, zsh", ["completion", "tcsh"]),
    (2, "not a database that this rota can open", ["list", "--db", "mysql://host/db"]),
    (3, "there is no database at", ["list", "--db", "nowhere.db"]),
    (2, "'.' is not a database file", ["list", "--db", "."]),
]


@pytest.fixture
def furnished(shell: Shell) -> Shell:
    """One job, a second that waits for it, and files that make poor payloads."""
    shell.add("A")
    shell.add("B", "--after", 1)
    (shell.folder / "large.json").write_text('"' + "x" * (256 * 1024) + '"')
    (shell.folder / "latin.json").write_bytes(b'"\xe9"')
    return shell


@pytest.mark.parametrize("part", range(4))
def test_bad_input_is_refused_with_a_clear_line_and_changes_nothing(furnished: Shell, part: int) -> None:
    before = furnished.contents()
    for code, told, words in BAD[part::4]:
        message = furnished.refuse(*words, code=code)
        assert told in message, (words, message)
    assert furnished.contents() == before


def test_with_json_a_refusal_prints_nothing_on_stdout(shell: Shell) -> None:
    assert shell.refuse("show", 99, "--json", code=3) == "there is no job 99"
    assert shell.refuse("--json", "claim", 99, code=3) == "there is no job 99"


def test_words_that_are_not_utf_8_are_refused(shell: Shell) -> None:
    assert "is not valid UTF-8" in shell.refuse("add", "caf\udce9", code=2)


def test_a_setting_that_makes_no_sense_is_refused(shell: Shell) -> None:
    assert "lease (from environment)" in shell.exporting(ROTA_LEASE="soon").refuse("list", code=2)
    (shell.folder / "rota.toml").write_text("max_attempt = 3\n")
    assert "unknown setting 'max_attempt'" in shell.refuse("list", code=2)


def test_without_a_database_only_those_that_make_one_work(bare: Shell) -> None:
    for words in (
        ["list"],
        ["ready"],
        ["claim", "1"],
        ["worker", "heartbeat", "w"],
        ["queue", "list"],
        ["migrate"],
    ):
        assert "`rota init` makes one" in bare.refuse(*words, code=3)
    assert list(bare.folder.iterdir()) == []
