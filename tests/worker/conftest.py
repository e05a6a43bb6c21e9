"""Workers for a test, gone after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker.driven import Driven

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Driven]]:
    started: list[Driven] = []

    def one(tasks: str = "", **more: str) -> Driven:
        started.append(Driven(tmp_path, tasks, **more))
        return started[-1]

    yield one
    for each in started:
        each.end()
