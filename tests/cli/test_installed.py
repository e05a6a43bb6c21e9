"""The installed command and a call in this process answer alike, so that the other tests may use the cheaper one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.shell import Shell, call, call_process

if TYPE_CHECKING:
    from subprocess import CompletedProcess

# Each exit code, both streams, JSON and text, what is read from stdin and from the environment.
CALLS = [
    ["init"],
    ["--version"],
    ["add", "Grüße", "--payload", "-", "--json"],
    ["add", "later", "--at", "soon"],
    ["list"],
    ["list", "--json"],
    ["show", "1", "--json"],
    ["show", "99"],
    ["ready", "--json"],
    ["worker", "register", "--name", "loop", "--json"],
    ["claim", "1"],
    ["claim", "1", "other"],
    ["done", "1", "--token", "999"],
    ["done", "1", "--json"],
    ["claim", "1"],
    ["worker", "heartbeat", "worker-00000000"],
    ["queue", "set", "mail", "--max-depth", "0"],
    ["orchestrator", "status", "--json"],
    ["why", "1"],
    ["lst"],
    ["add", "--help"],
]


def test_the_installed_command_answers_as_a_call_in_this_process_does(tmp_path: Path) -> None:
    answers = []
    for name, way in (("here", call), ("installed", call_process)):
        folder = tmp_path / name
        folder.mkdir()
        answers.append([_told(way(words, folder, {"ROTA_LEASE": "5m"}, '{"n": 1}'), folder) for words in CALLS])
    for words, here, installed in zip(CALLS, *answers, strict=True):
        assert here == installed, words
    assert {code for code, _, _ in answers[0]} >= {0, 2, 3, 5, 6, 7}


def test_the_installed_command_has_the_exit_code_and_streams_of_the_verb(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.make()
    refused = call_process(["show", "7"], tmp_path, {})
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.startswith("rota: ") and refused.stderr.count("\n") == 1


def _told(answer: CompletedProcess[str], folder: Path) -> tuple[int, str, str]:
    """An answer without what differs by chance: the folder, ids of workers and times."""
    texts = [answer.stdout, answer.stderr]
    for pattern, word in (
        (re.escape(str(folder)), "FOLDER"),
        (r"worker-[a-z0-9]{8}", "WORKER"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"\b\d+ ?(ms|s)\b", "AGE"),
    ):
        texts = [re.sub(pattern, word, text) for text in texts]
    return answer.returncode, texts[0], texts[1]
