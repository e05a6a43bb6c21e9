"""Completion, driven as the shell drives it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from rota.cli.verbs import all_verbs
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from tests.support.shell import Shell

# What bash does on TAB: COMP_LINE and COMP_POINT are set, the function is called, COMPREPLY is the answer.
DRIVER = """
eval "$('{rota}' completion bash)"
complete -p rota >/dev/null || exit 1
COMP_LINE=$1 COMP_POINT=${{#1}}
_rota
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete(shell: Shell, line: str) -> list[str]:
    answer = subprocess.run(
        ["bash", "--norc", "-c", DRIVER.format(rota=ROTA), "bash", line],
        cwd=shell.folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stderr == ""
    return answer.stdout.split()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("rota claim:re", ["renew", "release"]),
        ("rota claim:rel", ["release"]),
        ("rota wor", ["worker"]),
        ("rota worker ", ["register", "heartbeat", "deregister", "list", "start", "exec", "status", "stop"]),
        ("rota worker reg", ["register"]),
        ("rota claim rel", ["release"]),
        ("rota list --st", ["--status"]),
        ("rota list --status f", ["failed"]),
        ("rota wait 5 --for ", ["done", "final", "active", "ready"]),
        ("rota claim:release 5 --n", ["--note"]),
        ("rota claim release 5 --n", ["--note"]),
        ("rota --json lis", ["list"]),
        ("rota completion ", ["bash", "zsh", "--db", "--json", "--help"]),
        ("rota add --queue ", []),
    ],
)
def test_bash_completes(shell: Shell, line: str, found: list[str]) -> None:
    assert sorted(complete(shell, line)) == sorted(found)


def test_bash_offers_every_command(shell: Shell) -> None:
    offered = set(complete(shell, "rota "))
    assert {verb.name.split()[0] for verb in all_verbs()} <= offered


def test_bash_completes_the_file_of_a_database(shell: Shell) -> None:
    (shell.folder / "other.db").touch()
    assert complete(shell, "rota list --db oth") == ["other.db"]


def test_the_script_for_zsh_has_every_command_and_option(shell: Shell) -> None:
    script = shell.say("completion", "zsh")
    assert script.startswith("#compdef rota\n") and script.endswith("compdef _rota rota")
    for verb in all_verbs():
        (line,) = [line for line in script.splitlines() if line.strip().startswith(f'"{verb.name}")')]
        assert all(option.flag in line for option in verb.options)
