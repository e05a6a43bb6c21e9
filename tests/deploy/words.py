"""What the tests of `deploy/` share: words held against the real command table, and PromQL against the real metrics."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from rota.api.metrics import COUNTER, HISTOGRAM, METRICS
from rota.cli.parser import split, values
from rota.cli.verbs import by_name
from rota.settings import MEANINGS
from tests.docs.pages import ROOT, blocks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DEPLOY = ROOT / "deploy"
LAST_STEPS = 5.5  # what a stop takes once the time to finish is over: SIGTERM, then SIGKILL
VARIABLES = {f"ROTA_{name.upper()}" for name in MEANINGS}
_KNOWN = by_name()
_ENDS = re.compile(r"[|;<>&()]+")


def parsed(words: Sequence[str]) -> tuple[str, dict[str, object]]:
    """The command that these words call, and what it is called with; raises as the command line would."""
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in _KNOWN:
            return name, values(_KNOWN[name], split(_KNOWN[name], words[length:]), {})
    raise AssertionError(f"there is no command {' '.join(words)}")


def is_told(metric: str) -> bool:
    """Whether `/metrics` has samples of this name."""
    kinds = {name: kind for name, (kind, _, _) in METRICS.items()}
    if metric.endswith("_total"):
        return kinds.get(metric.removesuffix("_total")) == COUNTER
    parts = [metric.removesuffix(end) for end in ("_bucket", "_count", "_sum") if metric.endswith(end)]
    if any(kinds.get(name) == HISTOGRAM for name in parts):
        return True
    return kinds.get(metric, COUNTER) not in (COUNTER, HISTOGRAM)


def metrics_in(query: str) -> dict[str, set[str]]:
    """Each metric of a query, with the labels that it asks for."""
    found: dict[str, set[str]] = {}
    for metric, inside in re.findall(r"\b(rota_\w+)(?:\{([^}]*)\})?", query):
        found.setdefault(metric, set()).update(re.findall(r"(\w+)\s*[=!]", inside))
    return found


def labels_of(metric: str) -> set[str]:
    return set(METRICS[metric][1])


def calls_in(page: Path) -> list[list[str]]:
    """Every call of rota in the console blocks of a page, whatever runs it: sudo, docker or kubectl."""
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [words for line in lines if line.startswith("$ ") for words in _calls(line[2:])]


def mentioned_in(page: Path) -> list[str]:
    """Every call of rota within a sentence; most leave out what they are called with."""
    return re.findall(r"(?<!`)`rota ([^`]+)`(?!`)", page.read_text(encoding="utf-8"))


def check_mention(text: str) -> None:
    """The command exists, and so do the options that are named; raises where not."""
    words = text.split()
    name = next((name for length in (2, 1) if (name := " ".join(words[:length])) in _KNOWN), None)
    assert name is not None, f"there is no command {text}"
    split(_KNOWN[name], words[len(name.split()) :])


def _calls(line: str) -> list[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;<>&()")
    lexer.whitespace_split = True
    words = list(lexer)
    starts = [place for place in range(len(words)) if _is_call(words, place)]
    ends = [place for place, word in enumerate(words) if _ENDS.fullmatch(word)] + [len(words)]
    return [words[start + 1 : next(end for end in ends if end > start)] for start in starts]


def _is_call(words: list[str], place: int) -> bool:
    if words[:4] == ["docker", "compose", "run", "--rm"]:  # the entry point of the image is rota
        return place == 4
    is_first = place == 0 or words[place - 1] == "--" or (words[:3] == ["docker", "compose", "exec"] and place == 4)
    return words[place].endswith("/bin/rota") or (words[place] == "rota" and is_first)
