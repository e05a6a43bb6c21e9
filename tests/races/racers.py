"""Processes that race: each started once, told by its pipe when to run, answering by its pipe what it got."""

from __future__ import annotations

import select
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.support.processes import python

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

PATIENCE = 200


@contextmanager
def racers(count: int, code: str, *arguments: object) -> Iterator[list[subprocess.Popen[str]]]:
    """That many processes that run `code`, once all of them have said that they are ready."""
    with ExitStack() as stack:
        processes = [stack.enter_context(python(code, *arguments, number)) for number in range(count)]
        assert answers(processes) == ["ready"] * count
        yield processes


def start(processes: list[subprocess.Popen[str]], word: str) -> None:
    """Give all of them the word, as nearly at once as can be."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{word}\n")
    for process in processes:
        assert process.stdin is not None
        process.stdin.flush()


def answers(processes: list[subprocess.Popen[str]]) -> list[str]:
    """One line from each; a process that died shows what it said."""
    return [_line(process) for process in processes]


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None and process.stderr is not None
    if not select.select([process.stdout], [], [], PATIENCE)[0]:
        raise AssertionError(f"no answer from process {process.pid} within {PATIENCE} s")
    line = process.stdout.readline().strip()
    if not line:
        sys.stderr.write(process.stderr.read())
        raise AssertionError(f"process {process.pid} died")
    return line
