"""The budget of randomised tests in `./dev test`: some seconds, from a seed that is made from the commit.

A landing is tried with what its developer tried: the same commit draws the same programs, in the same order. A slower
machine stops earlier.
"""

from __future__ import annotations

import os
import subprocess
import time
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = "ROTA_TEST_SEED"  # draws others


@cache
def seed() -> str:
    """Return the seed in `ROTA_TEST_SEED`, or one made from the commit."""
    if given := os.environ.get(SEED):
        return given
    words = ["git", "rev-parse", "HEAD"]
    ran = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return ran.stdout.strip() or "0"


def rounds(seconds: float) -> Iterator[int]:
    """Number the rounds of a test until its seconds are over. There is at least one."""
    end = time.monotonic() + seconds
    for number in count():
        yield number
        if time.monotonic() > end:
            return
